/* A schedule in C, of a question {"profile": .., "budget": "60%"} of at most 64 MiB on standard
 * input. In a clone that was built: cc -Iclients/local clients/examples/tasks/schedule.c
 * -Lbuild/clients/local -lremat-local -Wl,-rpath,$PWD/build/clients/local */
#include <remat_local.h>

#include <stdio.h>

int main(void)
{
    static char question[1 << 26];
    int status = 0;
    const size_t length = fread(question, 1, sizeof question, stdin);
    char *answer = remat_local_post("/v1/schedules", question, length, NULL, NULL, &status);
    puts(answer ? answer : "out of memory");
    remat_local_free(answer);
    return status != 200;
}
