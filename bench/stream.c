/* One thread through memory, as compiled C does it (bench/bandwidth.py):
 *     gcc -O3 -march=native -fassociative-math -fno-signed-zeros -fno-trapping-math -shared -fPIC stream.c -o stream.so
 * Numbers are f32. These flags let the compiler keep several sums at once, as any library does. */
#include <stddef.h>

/* sum of a: 4 bytes read for each number */
float stream_read(const float *restrict a, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i];
    return sum;
}

/* sum of a b: 8 bytes read */
float stream_dot(const float *restrict a, const float *restrict b, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* b into c: 4 bytes read, 4 written (and 4 fetched first, unless the compiler writes around the cache) */
void stream_copy(const float *restrict b, float *restrict c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        c[i] = b[i];
}

/* a + s b into c: 8 bytes read, 4 written (and 4 fetched) */
void stream_triad(const float *restrict a, const float *restrict b, float *restrict c, float s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        c[i] = a[i] + s * b[i];
}
