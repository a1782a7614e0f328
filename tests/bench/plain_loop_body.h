/* Included twice, with COST and PLAIN_LOOP defined. */

static COST leaf_cost(const plain_chain *c, int s)
{
    return (COST)(c->forward[s] + c->backward[s]);
}

int PLAIN_LOOP(const plain_chain *c, int32_t *answer)
{
    int n = c->n;
    size_t n_states = (size_t)(c->n_slots + 1) * (size_t)(n + 1);
    COST ***table = calloc((size_t)c->n_slots + 1, sizeof *table);
    COST **lists = calloc(n_states, sizeof *lists);
    COST *values =
        malloc((size_t)(c->n_slots + 1) * (size_t)n * (size_t)(n + 1) / 2 * sizeof *values);
    if (!table || !lists || !values) {
        free(table);
        free(lists);
        free(values);
        return -1;
    }
    COST *next = values;
    for (int m = 0; m <= c->n_slots; m++) {
        table[m] = lists + (size_t)m * (size_t)(n + 1);
        for (int i = 1; i <= n; i++) {
            table[m][i] = next;
            next += n - i + 1;
        }
    }
    for (int m = 0; m <= c->n_slots; m++)
        for (int s = 1; s <= n; s++)
            table[m][s][0] =
                m >= c->need_all[s * (n + 1) + s] ? leaf_cost(c, s) : (COST)PLAIN_INFINITE;
    for (int m = 0; m <= c->n_slots; m++)
        for (int length = 1; length < n; length++)
            for (int s = 1; s + length <= n; s++) {
                int t = s + length;
                COST best = (COST)PLAIN_INFINITE;
                if (m >= c->need_pass[s * (n + 1) + t]) {
                    if (m >= c->need_all[s * (n + 1) + t] && m >= c->kept[s]) {
                        COST cost = leaf_cost(c, s) + table[m - c->kept[s]][s + 1][length - 1];
                        best = cost < best ? cost : best;
                    }
                    COST forwards = 0;
                    for (int k = s + 1; k <= t; k++) {
                        forwards += (COST)c->forward[k - 1];
                        if (m < c->output[k - 1])
                            continue;
                        COST cost = forwards + table[m - c->output[k - 1]][k][t - k] +
                                    table[m][s][k - 1 - s];
                        best = cost < best ? cost : best;
                    }
                }
                table[m][s][length] = best;
            }
    for (int m = 0; m <= c->n_slots; m++)
        answer[m] = table[m][1][n - 1] < (COST)PLAIN_INFINITE ? (int32_t)table[m][1][n - 1]
                                                              : PLAIN_INFINITE;
    free(table);
    free(lists);
    free(values);
    return 0;
}
