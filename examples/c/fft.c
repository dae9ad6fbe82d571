/*
 * The parallel FFT of DeWitt, Gao and Ke, section 4.3: a sequence of 2-D transforms of N x N complex numbers, spread over
 * the nodes of an MPI run, which meet at a barrier after each. It knows nothing of reservations.
 *
 *     mpicc fft.c -o fft -lfftw3f_mpi -lfftw3f -lm
 *     mpirun -np 3 ./fft 1024 32 750
 *
 * The third word is the time that each computes in a round, ms: the nodes of 1998 took as long for it as for their
 * messages, today's take some milliseconds. What the transform itself takes is part of it.
 */
#include <fftw3-mpi.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double energy(const fftwf_complex *data, ptrdiff_t count)
{
    double mine = 0, all = 0;

    for (ptrdiff_t i = 0; i < count; i++)
        mine += (double)data[i][0] * data[i][0] + (double)data[i][1] * data[i][1];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void pause_until(double when)
{
    double left = when - MPI_Wtime();

    if (left > 0) {
        struct timespec span = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        nanosleep(&span, NULL);
    }
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fftwf_mpi_init();
    long n = argc > 1 ? atol(argv[1]) : 1024, rounds = argc > 2 ? atol(argv[2]) : 32;
    double compute = argc > 3 ? atof(argv[3]) / 1e3 : 0;
    if (n < 2 || n > 1 << 14 || rounds < 1 || compute < 0) {
        if (rank == 0)
            fprintf(stderr, "usage: fft N ROUNDS [COMPUTE-MS]\n");
        MPI_Finalize();
        return 2;
    }
    ptrdiff_t rows, first, columns, left;
    ptrdiff_t room = fftwf_mpi_local_size_2d_transposed(n, n, MPI_COMM_WORLD, &rows, &first, &columns, &left);
    fftwf_complex *data = fftwf_alloc_complex((size_t)room);
    fftwf_plan plan =
        fftwf_mpi_plan_dft_2d(n, n, data, data, MPI_COMM_WORLD, FFTW_FORWARD, FFTW_ESTIMATE | FFTW_MPI_TRANSPOSED_OUT);
    if (data == NULL || plan == NULL) {
        fprintf(stderr, "fft: no memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    /* N is the same both ways, so the columns of a result are as many as the rows of the next round's input. */
    ptrdiff_t count = rows * n;
    for (ptrdiff_t i = 0; i < count; i++) {
        data[i][0] = (float)((first * n + i) * 7919 % 1000) / 1000 - 0.5F;
        data[i][1] = (float)((first * n + i) * 104729 % 1000) / 1000 - 0.5F;
    }
    double before = energy(data, count), waited = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long round = 0; round < rounds; round++) {
        pause_until(MPI_Wtime() + compute);
        double sent = MPI_Wtime();
        fftwf_execute(plan);
        for (ptrdiff_t i = 0; i < count; i++) { /* keeps the energy what it was */
            data[i][0] /= (float)n;
            data[i][1] /= (float)n;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        waited += MPI_Wtime() - sent;
    }
    double took = MPI_Wtime() - begin;
    double error = fabs(energy(data, count) / before - 1);
    if (rank == 0)
        printf("{\"seconds\": %.6f, \"communication\": %.6f, \"rounds\": %ld, \"error\": %.3g}\n", took, waited, rounds, error);
    fftwf_destroy_plan(plan);
    fftwf_free(data);
    MPI_Finalize();
    return error < 1e-3 ? 0 : 1;
}
