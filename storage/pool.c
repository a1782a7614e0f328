#include "private.h"

void storage_pool_init(storage_pool *pool)
{
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->free, NULL);
}

void storage_pool_clear(storage_pool *pool)
{
    pthread_cond_destroy(&pool->free);
    pthread_mutex_destroy(&pool->lock);
}

storage_connection *storage_pool_take(storage_pool *pool, unsigned most)
{
    pthread_mutex_lock(&pool->lock);
    while (!pool->idle && pool->connections == most)
        pthread_cond_wait(&pool->free, &pool->lock);
    storage_connection *connection = pool->idle;
    if (connection)
        pool->idle = connection->next;
    else
        pool->connections++;
    pthread_mutex_unlock(&pool->lock);
    return connection;
}

void storage_pool_give(storage_pool *pool, storage_connection *connection)
{
    pthread_mutex_lock(&pool->lock);
    if (connection) {
        connection->next = pool->idle;
        pool->idle = connection;
    } else {
        pool->connections--;
    }
    pthread_cond_signal(&pool->free);
    pthread_mutex_unlock(&pool->lock);
}
