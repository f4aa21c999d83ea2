/* C interface of the measuring kernel: one call measures a batch of pairs of tensors.

   Every field has eight bytes, so that callers need not care about padding. Sums are exact sums of rounded block sums:
   results do not depend on the number of threads, on the order of the work, or on the stored layout. */

#ifndef OPDIFF_KERNEL_H
#define OPDIFF_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OD_VERSION 5
#define OD_API __attribute__((visibility("default")))

/* Element types. OD_TABLE: one byte, an index of a table of 256 floats. */
enum od_kind {
    OD_FLOAT16, OD_BFLOAT16, OD_FLOAT32, OD_FLOAT64, OD_TABLE, OD_BOOL,
    OD_INT8, OD_UINT8, OD_INT16, OD_UINT16, OD_INT32, OD_UINT32, OD_INT64, OD_UINT64,
    OD_KINDS
};

enum od_status {
    OD_DONE,
    OD_NOT_MEASURED,  /* the call was cancelled */
    OD_BAD_JOB,       /* the description is inconsistent */
    OD_NO_FILE,       /* detail: errno */
    OD_CANNOT_READ,   /* detail: errno */
    OD_TOO_SHORT,     /* detail: the size of the file */
    OD_NO_MEMORY,
    OD_BEYOND_RANGE   /* doubles have too few digits, or squares leave their range: use the reference */
};

enum { OD_WITH_KL = 1, OD_FOR_GRAPHS = 2 };

enum { OD_RELATIVE_BINS = 19, OD_ULP_BINS = 24 };

/* One axis of a view: index i is at (i / split) * outer + (i % split) * inner elements. */
typedef struct {
    int64_t extent, split, outer, inner;
} od_axis;

/* Location of the elements of one tensor. Rank 0: contiguous. */
typedef struct {
    int64_t path;    /* where its name begins in the paths of the batch, or -1 when `data` has the bytes */
    int64_t data;    /* an address */
    int64_t offset;  /* of the first byte in the file */
    int64_t nbytes;
    int64_t kind;
    int64_t table;   /* address of 256 floats for OD_TABLE */
    int64_t axes;    /* index of the first axis in `axes` of the batch */
    int64_t rank;
} od_side;

typedef struct {
    od_side target, golden;
    int64_t count;         /* elements on either side */
    int64_t run;           /* a new block starts every `run` elements; divides `count`, or 0 */
    int64_t digits;        /* fraction bits of the coarser float type; -1 if there is none */
    int64_t min_exponent;  /* of its smallest normal number */
    int64_t flags;
} od_job;

/* An element and its value on both sides: a double, or the bits of a 64-bit integer. `index` -1: none. */
typedef struct {
    int64_t index, target, golden;
} od_extreme;

typedef struct {
    int64_t finite, nans, positive_infs, negative_infs, first_nan, first_inf;
    int64_t minimum, maximum;  /* doubles, or the bits of 64-bit integers */
    double total, squares, spread;
} od_totals;

/* With OD_FOR_GRAPHS, over the pairs that are finite on both sides; x is the target, y the golden tensor. */
typedef struct {
    /* Sums of exp(y - Y), of exp(x - X), and of exp(y - Y) * ((y - Y) - (x - X)) with the maxima X and Y; only if both
       sides are finite. */
    double golden_weight, target_weight, weighted;
    /* Of the pairs with |y| > 2^-23: sums and maxima of |x - y| and |x - y| / |y|. */
    double error_sizes, relative, worst, worst_relative;
    /* Of the pairs with 0 < |y| <= 2^-52: the largest |x - y| / |y|, and how many are at least 0.001 and 0.005. */
    double tiny_relative;
    int64_t tiny_over_1_permille, tiny_over_5_permille;
    int64_t zeros;  /* pairs with y = 0 and another x */
} od_graph;

typedef struct {
    int64_t status, detail, failed_side;  /* failed_side: 0 the target, 1 the golden side */
    int64_t count;                    /* elements on either side */
    int64_t relative_bins[OD_RELATIVE_BINS];
    int64_t ulp_bins[OD_ULP_BINS];
    int64_t unequal;
    od_totals target, golden;
    /* Over the pairs that are finite on both sides. */
    int64_t pairs;
    double x, y, xx, yy, xy, spread_x, spread_y, spread_xy, errors, error_sizes, error_squares, relative;
    int64_t over_1_permille, over_5_permille, zero_golden;
    od_extreme worst, worst_relative, worst_ulps;
    int64_t same_infs, opposite_infs, target_infs, golden_infs, mismatches, first_mismatch;
    double kl;  /* NaN if not measured */
    od_graph graph;
} od_result;

typedef struct {
    const od_job *jobs;
    od_result *results;
    const od_axis *axes;
    const char *paths;
    int64_t count, axes_count, paths_size;
    int64_t threads;
    int64_t resident;            /* bytes of a mapped pair after which pages are released; far smaller pairs stay */
    volatile int64_t done;       /* bytes measured so far; other threads may read it */
    volatile int64_t cancelled;  /* other threads may set it */
} od_batch;

/* Slices along one axis, of `width` indices each; each index has `inner_count` elements. */
typedef struct {
    int64_t extent, inner_count, width;
} od_axis_slices;

/* Errors in one slice: number of elements, how many errors are not finite, and of the others the sum of squares and the
   largest. Equal infinities, and NaNs on both sides, are no error. */
typedef struct {
    int64_t count, not_finite;
    double squares, largest;
} od_slice;

/* Elements to look at: up to `length` from each of `count` starts. */
typedef struct {
    const int64_t *starts;
    int64_t count, length;
} od_sample;

/* An axis of the shape of a picture: parts of its index in the numbers of plane and cell, index * plane and
   index / width * cell. */
typedef struct {
    int64_t extent, plane, width, cell;
} od_grid_axis;

/* Planes and cells of a picture, and the range of values that is divided into `bins` bins. */
typedef struct {
    const od_grid_axis *axes;
    int64_t rank, planes, cells, bins;
    double low, high;
} od_grid;

/* Errors in one plane or cell: as in od_slice. */
typedef struct {
    int64_t count, not_finite;
    double squares;
} od_cell;

OD_API int64_t od_version(void);
/* Sizes of od_axis, od_side, od_job, od_result and od_batch, to be checked by the caller. */
OD_API void od_sizes(int64_t sizes[5]);
/* Instruction set used on this machine: "x86-64-v3", "x86-64", "aarch64", … */
OD_API const char *od_instructions(void);
/* Returns 0, or -1 if the batch is invalid or memory is exhausted. Each job has its own status. */
OD_API int64_t od_measure(od_batch *batch);
/* Errors of the first job of a batch by slices of some axes, whose slices are consecutive. Returns an od_status, or -1
   if the description is invalid. */
OD_API int64_t od_axis_errors(const od_batch *batch, const od_sample *sample, const od_axis_slices *axes, int64_t count,
                              od_slice *slices);
/* Smallest and largest finite value of both sides of the first job; infinity and -infinity if there is none. Returns as
   od_axis_errors. */
OD_API int64_t od_value_range(const od_batch *batch, double ends[2]);
/* Adds the errors of the first job to planes and cells, the pairs that are finite on both sides to bins of the golden and
   the target value, golden bin by golden bin, and to `counts` the pairs outside of the range and those that are not
   finite. Returns as od_axis_errors. */
OD_API int64_t od_picture(const od_batch *batch, const od_grid *grid, od_cell *planes, od_cell *cells, int64_t *density,
                          int64_t counts[2]);
/* Sum of the 64-bit words, except for a rest of less than 128 bytes: memory bandwidth for benchmarks. */
OD_API uint64_t od_read(const void *data, int64_t nbytes);

#ifdef __cplusplus
}
#endif

#endif
