/*
 * The native plugin ABI of Tare, major version 1.
 *
 * A backend is a shared library that exports one function, `tare_backend_v1`. The host calls it,
 * gets a table of functions, and runs models through that table. This header is all that a
 * backend needs; plugin_api.hpp wraps it for C++, and the crate `plugin-api` for Rust.
 *
 * Growth. Every struct that may grow begins with `struct_size`, which whoever fills the struct sets
 * to the size that it knows. Fields are only ever appended, and nobody reads or writes further than
 * the size that was given; TARE_HAS asks whether a field is there. A field that was appended says since
 * which version it exists, and zero means what an older version did. A call whose argument struct is
 * smaller than in ABI 1.0, or ends within a field, is refused with TARE_ERROR_VERSION. The value types tare_string,
 * tare_attribute, tare_dtype, tare_dimension and tare_shape have no size and never change.
 * Whatever does not fit into the core is an extension, asked for by a name with a version.
 *
 * Calls. Each takes one argument struct: first what the caller gives, then what the callee fills
 * in, marked "out". The caller sets the out fields to zero. A call returns NULL when it did what was
 * asked, or an error that belongs to the caller, who ends it with its `destroy`. After an error
 * the out fields mean nothing.
 *
 * Ownership. Handles (backend, model, session, tensor) belong to the caller, who ends each with the
 * call that is named for it, children before parents: tensors and sessions before their model,
 * models before the backend. Information that a call hands out belongs to the backend, and each
 * field states its lifetime. Arguments of the caller may be read until the call
 * returns.
 *
 * Strings are UTF-8 with a length and need no terminating zero; data may be NULL if the length is 0.
 * A name or value of more than 16 KiB is refused. Control characters in it are kept, and shown to
 * people as pictures of themselves.
 *
 * Threads. Each function has a tag:
 *   [main thread]  only on the thread that called the entry point, unless the backend offers the
 *                  extension "tare/threads/1", which says more;
 *   [any thread]   on any thread, at any time.
 * A backend may have threads of its own. It must not let an exception or a panic cross the table,
 * and it leaves signal handlers, the locale, the working directory and standard output alone.
 */
#ifndef TARE_PLUGIN_API_H
#define TARE_PLUGIN_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header. The major version is also part of the entry symbol's name. */
#define TARE_ABI_MAJOR 1
#define TARE_ABI_MINOR 1

/* Put this before the entry point's definition. */
#if defined(_WIN32)
#define TARE_EXPORT __declspec(dllexport)
#else
#define TARE_EXPORT __attribute__((visibility("default")))
#endif

/* Whether a struct that came from the other side is large enough to hold a field. */
#define TARE_HAS(type, pointer, field)                                                             \
    ((pointer)->struct_size >= offsetof(type, field) + sizeof(((type *)0)->field))

/* ---- Values ------------------------------------------------------------------------------- */

/* UTF-8 text. */
typedef struct tare_string {
    const char *data;
    size_t length;
} tare_string;

/* A string from a literal. */
#ifdef __cplusplus
#define TARE_STRING(literal) (tare_string{(literal), sizeof(literal) - 1})
#else
#define TARE_STRING(literal) ((tare_string){(literal), sizeof(literal) - 1})
#endif

/* A named text: an option, a property. */
typedef struct tare_attribute {
    tare_string key;
    tare_string value;
} tare_attribute;

/* An element type, as in DLPack: `bits` for one lane; lanes are 1 except for vectors. */
typedef struct tare_dtype {
    uint8_t code; /* One of TARE_DTYPE_*. */
    uint8_t bits; /* 0: unknown. */
    uint16_t lanes;
} tare_dtype;

/* DLPack's codes of element types, and one for text. Booleans have 8 bits and are 0 or 1. An element of
 * text is a tare_string, and its bits are TARE_STRING_BITS: what it points to is read from a view until
 * the call returns, and what tensor_read writes may be read until the tensor is written again or
 * destroyed. */
enum {
    TARE_DTYPE_INT = 0,
    TARE_DTYPE_UINT = 1,
    TARE_DTYPE_FLOAT = 2,
    TARE_DTYPE_BFLOAT = 4,
    TARE_DTYPE_COMPLEX = 5,
    TARE_DTYPE_BOOL = 6,
    TARE_DTYPE_STRING = 128 /* Since 1.1. */
};
#define TARE_STRING_BITS ((uint8_t)(8 * sizeof(tare_string)))

/* Kinds of inputs and outputs, since 1.1. Only a tensor has an element type and a shape, and only a tensor
 * can be made and read. */
enum {
    TARE_KIND_TENSOR = 0,
    TARE_KIND_SEQUENCE = 1, /* A list of values. */
    TARE_KIND_MAP = 2,      /* Values by key. */
    TARE_KIND_OTHER = 3
};

/* An axis of an input or output. */
typedef struct tare_dimension {
    int64_t size;     /* TARE_DYNAMIC if it differs from call to call. */
    tare_string name; /* Name of a dynamic axis, such as "batch"; axes of one name have one size. */
} tare_dimension;

#define TARE_DYNAMIC ((int64_t)-1)

/* A concrete shape. */
typedef struct tare_shape {
    const int64_t *sizes;
    size_t rank;
} tare_shape;

/* Elements in host memory, described as in DLPack. */
typedef struct tare_view {
    size_t struct_size;
    void *data;
    tare_dtype dtype;
    uint32_t rank;
    const int64_t *shape;
    const int64_t *strides; /* In elements. NULL: compact, in C order. */
    uint64_t byte_offset;   /* From data to the first element. */
} tare_view;

/* ---- Errors ------------------------------------------------------------------------------- */

enum {
    TARE_ERROR_INTERNAL = 1,         /* A bug in the backend; it should not be used any more. */
    TARE_ERROR_INVALID_ARGUMENT = 2, /* The call, an option or a shape is wrong. */
    TARE_ERROR_NOT_FOUND = 3,        /* No such file, device or name. */
    TARE_ERROR_INVALID_MODEL = 4,    /* The file is not a model, or is damaged. */
    TARE_ERROR_UNSUPPORTED = 5,      /* The backend cannot do this, and never could. */
    TARE_ERROR_OUT_OF_MEMORY = 6,    /* On the host or on the device. */
    TARE_ERROR_DEVICE = 7,           /* The device or its driver failed. */
    TARE_ERROR_VERSION = 8,          /* A struct is smaller than in ABI 1.0, or ends within a field. */
    TARE_ERROR_RUNTIME_MISSING = 9,  /* The vendor's runtime, or a part of it, is missing, cannot be loaded
                                      * or is too old. The host says how to install it. Since 1.1. */
    TARE_ERROR_CANCELLED = 10        /* The host asked for an end, by "tare/cancel/1". Since 1.1. */
};

typedef struct tare_error tare_error;
struct tare_error {
    size_t struct_size;
    int32_t code;    /* One of TARE_ERROR_*; an unknown one counts as internal. */
    uint32_t unused; /* 0. */
    tare_string message; /* One sentence: what is wrong, and where. The host keeps 4 KiB of it. */
    tare_string details; /* More to read: a list of operators, a driver's log. May be empty. The host
                          * keeps 64 KiB of it. */
    void (*destroy)(tare_error *error); /* [any thread] Frees the error. Never NULL. */
};

/* ---- Information -------------------------------------------------------------------------- */

/* Description of a backend. */
typedef struct tare_description {
    size_t struct_size;
    tare_string id;             /* As in plugin.toml; another one is refused. */
    tare_string version;        /* Its own version, semver. As in plugin.toml, too. */
    tare_string engine;         /* The library that it drives, such as "onnxruntime". */
    tare_string engine_version; /* The engine's version as found at run time; empty if unknown. */
    const tare_string *extensions; /* Names that get_extension answers. */
    size_t extension_count;
    /* Modes that load takes: "inference", "training", "generation". None: inference only. */
    const tare_string *modes; /* Since 1.1. */
    size_t mode_count;        /* Since 1.1. */
} tare_description;

/* A device that models can be loaded onto. */
typedef struct tare_device {
    size_t struct_size;
    tare_string id;        /* Unique, and the same in each process on this machine: "cpu:0". Up to 128
                            * of the characters A-Z a-z 0-9 . _ : / - with a letter or digit first. */
    tare_string kind;      /* "cpu", "gpu", "npu", or another word. */
    tare_string name;      /* The vendor's full name of it. */
    uint64_t memory_bytes; /* 0: unknown. */
    const tare_string *precisions; /* "fp32", "fp16", "bf16", "int8". At least one. */
    size_t precision_count;
    const tare_attribute *attributes; /* Driver, runtime, compute capability, … */
    size_t attribute_count;
} tare_device;

/* An input or output of a model. */
typedef struct tare_tensor_info {
    size_t struct_size;
    tare_string name;
    tare_dtype dtype; /* bits = 0 if the model does not say. */
    int32_t rank;     /* -1 if the model does not say. */
    const tare_dimension *dimensions; /* As many as the rank. */
    uint32_t kind;   /* Since 1.1. One of TARE_KIND_*. */
    uint32_t unused; /* Since 1.1. 0. */
} tare_tensor_info;

/* Inputs and outputs of a model; the order is the order of handles in run. */
typedef struct tare_model_info {
    size_t struct_size;
    const tare_tensor_info *const *inputs;
    size_t input_count;
    const tare_tensor_info *const *outputs;
    size_t output_count;
} tare_model_info;

/* Settings that a session uses, as opposed to those requested: at least "precision", and "threads" where
 * that means something; everything else that the backend decided, such as element types it narrowed. A
 * backend whose figures are not those of a model on hardware says "simulated" and why, and is then
 * kept out of advice. */
typedef struct tare_session_info {
    size_t struct_size;
    const tare_attribute *used;
    size_t used_count;
} tare_session_info;

/* ---- Calls -------------------------------------------------------------------------------- */

/* Handles, defined by the backend. */
typedef struct tare_backend tare_backend;
typedef struct tare_model tare_model;
typedef struct tare_session tare_session;
typedef struct tare_tensor tare_tensor;

typedef struct tare_describe_args {
    size_t struct_size;
    tare_backend *backend;
    const tare_description *description; /* out, until destroy */
} tare_describe_args;

typedef struct tare_devices_args {
    size_t struct_size;
    tare_backend *backend;
    const tare_device *const *devices; /* out, until devices is called again, or destroy */
    size_t device_count;               /* out */
} tare_devices_args;

/* An option of load that every backend should know: with the value "strict", each operator must run on
 * the device that is asked for. A backend that could run one elsewhere refuses to, here or in prepare;
 * one that could not has nothing to do. */
#define TARE_OPTION_PLACEMENT "placement"

typedef struct tare_load_args {
    size_t struct_size;
    tare_backend *backend;
    tare_string path;   /* The model's file. */
    tare_string device; /* A device's id. */
    uint32_t threads;   /* Processor threads to compute with; 0: the backend chooses. */
    uint32_t unused;    /* 0. */
    const tare_attribute *options; /* From the manifest; one that is unknown is an error. */
    size_t option_count;
    tare_model *model;           /* out, never NULL */
    const tare_model_info *info; /* out, until unload */
    /* Since 1.1. One of the description's modes; empty: inference. In training, a run is a step, and its
     * inputs and outputs are the step's. In generation, a run answers a prompt. */
    tare_string mode;
} tare_load_args;

typedef struct tare_prepare_args {
    size_t struct_size;
    tare_model *model;
    tare_string precision;    /* "fp32", …; one that the device does not offer is an error. */
    const tare_shape *shapes; /* One concrete shape for each input. */
    size_t shape_count;
    tare_session *session;         /* out, never NULL */
    const tare_session_info *info; /* out, until release */
    /* Since 1.1. Bounds of the shapes that calls may have, axis by axis, one of each for each input; the
     * shapes above are then the typical ones. NULL: calls have the shapes above. */
    const tare_shape *least;    /* Since 1.1. */
    const tare_shape *greatest; /* Since 1.1. */
    uint32_t shapes_served;     /* Since 1.1. out: one of TARE_SHAPES_*. */
    uint32_t unused;            /* Since 1.1. 0. */
} tare_prepare_args;

/* Which shapes the calls of a session may have, since 1.1. */
enum {
    TARE_SHAPES_ONE = 0,      /* Only those that were prepared: it compiles for a shape. */
    TARE_SHAPES_COMPILED = 1, /* Any within the bounds; the first run with each compiles it. */
    TARE_SHAPES_ANY = 2       /* Any within the bounds, at once. */
};

/* Bits of tare_run_args.flags. Unknown bits are an error. */
#define TARE_RUN_ENQUEUE ((uint64_t)1)

typedef struct tare_run_args {
    size_t struct_size;
    tare_session *session;
    uint64_t flags;
    tare_tensor *const *inputs; /* One for each input of the model. Read, and never written. */
    size_t input_count;
    /* One for each output of the model. On entry each is NULL, or a tensor that an earlier run of this
     * session left in the same place, to be written again. On return each is a tensor that belongs
     * to the caller: the same handle, or a new one, whose predecessor the backend has destroyed. Its
     * shape is the one that the model's information promises: an axis of a fixed size has that size, and
     * an axis with the name of an input's axis has that axis's size.
     * After an error, too, each is NULL or a valid handle. An input may have been an output of an
     * earlier run; it is never at the same time among the outputs of this one. */
    tare_tensor **outputs;
    size_t output_count;
} tare_run_args;

typedef struct tare_synchronise_args {
    size_t struct_size;
    tare_session *session;
} tare_synchronise_args;

typedef struct tare_release_args {
    size_t struct_size;
    tare_session *session;
} tare_release_args;

typedef struct tare_unload_args {
    size_t struct_size;
    tare_model *model;
} tare_unload_args;

typedef struct tare_destroy_args {
    size_t struct_size;
    tare_backend *backend;
} tare_destroy_args;

typedef struct tare_tensor_create_args {
    size_t struct_size;
    tare_model *model;
    const tare_view *view;
    tare_tensor *tensor; /* out */
} tare_tensor_create_args;

typedef struct tare_tensor_describe_args {
    size_t struct_size;
    tare_tensor *tensor;
    tare_dtype dtype;     /* out */
    uint32_t rank;        /* out */
    const int64_t *shape; /* out, until the tensor is written again or destroyed */
    /* Since 1.1. out: one of TARE_KIND_*. A value that is not a tensor leaves the three fields above zero. If this
     * field is not there, it is refused with TARE_ERROR_UNSUPPORTED instead. */
    uint32_t kind;
    uint32_t unused; /* Since 1.1. 0. */
} tare_tensor_describe_args;

typedef struct tare_tensor_read_args {
    size_t struct_size;
    tare_tensor *tensor;
    const tare_view *view; /* Memory for the elements: of the tensor's dtype and shape. */
} tare_tensor_read_args;

typedef struct tare_tensor_destroy_args {
    size_t struct_size;
    tare_tensor *tensor;
} tare_tensor_destroy_args;

/* ---- The two tables ----------------------------------------------------------------------- */

/* How far a call has come. Since 1.1. */
typedef struct tare_progress {
    size_t struct_size;
    double part;       /* Part that is done, 0 to 1; not a number: unknown. */
    tare_string doing; /* Current activity, such as "compiling kernels"; may be empty. */
} tare_progress;

/* The host's functions. Valid as long as the process lives. */
typedef struct tare_host_api {
    size_t struct_size;
    uint32_t abi_major;
    uint32_t abi_minor;
    tare_string name;    /* Of the host. */
    tare_string version; /* Of the host. */
    void *context;       /* For the functions below. */
    /* [main thread] Says in one sentence why the entry point is about to return NULL, and which side
     * must be updated. Only to be called from within the entry point. */
    void (*refuse)(void *context, tare_string reason);
    /* Since 1.1. [main thread] Says from within a call that the work goes on, so that a long one is not
     * taken for one that hangs. It may be called often: the host passes on what it needs. */
    void (*progress)(void *context, const tare_progress *progress);
} tare_host_api;

/* The backend's functions. Valid until destroy. No function is NULL. */
typedef struct tare_backend_api {
    size_t struct_size;
    uint32_t abi_major; /* TARE_ABI_MAJOR of the header that it was built with. */
    uint32_t abi_minor; /* TARE_ABI_MINOR of the header that it was built with. */
    tare_backend *backend;

    /* [main thread] Says what the backend is. */
    tare_error *(*describe)(tare_describe_args *args);

    /* [main thread] Lists the devices that are there now. None is a valid answer. */
    tare_error *(*devices)(tare_devices_args *args);

    /* [main thread] Loads a model onto a device. */
    tare_error *(*load)(tare_load_args *args);

    /* [main thread] Makes a model ready to run with given shapes in a given precision: compiles,
     * allocates, tunes. Work that can be done here must not be left to the first run. */
    tare_error *(*prepare)(tare_prepare_args *args);

    /* [main thread] Runs the model once. Returns when the device is done and the outputs are
     * complete, unless TARE_RUN_ENQUEUE is set; then it may return as soon as the work is queued, and
     * inputs and outputs are left alone until synchronise has returned. A backend that cannot queue
     * runs to the end regardless. */
    tare_error *(*run)(tare_run_args *args);

    /* [main thread] Returns when all that was queued is done, with the first error among it. */
    tare_error *(*synchronise)(tare_synchronise_args *args);

    /* [main thread] Ends a session, waiting for what is queued. */
    tare_error *(*release)(tare_release_args *args);

    /* [main thread] Ends a model. */
    tare_error *(*unload)(tare_unload_args *args);

    /* [main thread] Ends the backend, and with it this table. */
    tare_error *(*destroy)(tare_destroy_args *args);

    /* [main thread] Makes a tensor on the model's device with a copy of the elements viewed; it can be
     * an input of every session of the model. Returns when the copy is made. */
    tare_error *(*tensor_create)(tare_tensor_create_args *args);

    /* [main thread] Says what is in a tensor that is complete. */
    tare_error *(*tensor_describe)(tare_tensor_describe_args *args);

    /* [main thread] Copies a complete tensor into host memory. */
    tare_error *(*tensor_read)(tare_tensor_read_args *args);

    /* [main thread] Ends a tensor. */
    tare_error *(*tensor_destroy)(tare_tensor_destroy_args *args);

    /* [main thread] An extension's table by name, valid until destroy; NULL: not offered. Names are
     * "vendor/what/version"; those that begin with "tare/" are defined by Tare. */
    const void *(*get_extension)(tare_backend *backend, tare_string name);
} tare_backend_api;

/* [main thread] The entry point. Not called again before the backend is destroyed. Does no more than
 * compare versions and make the table: it must not look for devices or start threads. Returns NULL
 * after having passed the reason to the host's `refuse`. */
TARE_EXPORT const tare_backend_api *tare_backend_v1(const tare_host_api *host);

/* ---- Extensions that Tare defines ------------------------------------------------------------- */

/* get_extension answers with a pointer to the table that is named here, or with NULL. A backend offers
 * what it knows and nothing else: what is not offered is shown as a gap, and an error from one of
 * these calls as a gap with its message. None of them is called while queries are timed, but for
 * tare_device_state, if the user asks for it, and for tare_marks, by which queries of some modes run. */

/* Energy of a device. The table is a tare_device_energy. */
#define TARE_DEVICE_ENERGY "tare/device-energy/1"

typedef struct tare_device_energy_args {
    size_t struct_size;
    tare_backend *backend;
    tare_string device;   /* A device's id. */
    uint64_t microjoules; /* out: what the whole device has taken since some moment, which stays the
                           * same; never less than what an earlier call gave. */
} tare_device_energy_args;

typedef struct tare_device_energy {
    size_t struct_size;
    tare_error *(*read)(tare_device_energy_args *args); /* [main thread] */
} tare_device_energy;

/* Memory of a device. The table is a tare_device_memory. */
#define TARE_DEVICE_MEMORY "tare/device-memory/1"

typedef struct tare_device_memory_args {
    size_t struct_size;
    tare_backend *backend;
    tare_string device;  /* A device's id. */
    uint64_t used_bytes; /* out: what this process holds on the device now. */
    uint64_t peak_bytes; /* out: the most that it has ever held; 0: unknown. */
} tare_device_memory_args;

typedef struct tare_device_memory {
    size_t struct_size;
    tare_error *(*read)(tare_device_memory_args *args); /* [main thread] */
} tare_device_memory;

/* Current state of a device. The table is a tare_device_state. */
#define TARE_DEVICE_STATE "tare/device-state/1"

/* Reasons for a device's lowered clocks, as bits. */
#define TARE_SLOWED_BY_IDLENESS 1u
#define TARE_SLOWED_BY_SETTING 2u /* Clocks that somebody has set. */
#define TARE_SLOWED_BY_POWER 4u
#define TARE_SLOWED_BY_HEAT 8u
#define TARE_SLOWED_BY_OTHER 16u

typedef struct tare_device_state_args {
    size_t struct_size;
    tare_backend *backend;
    tare_string device;        /* A device's id. */
    double utilisation;        /* out: part of the latest time in which it computed, 0 to 1. This and
                                * each of the next five is not a number where the device does not tell. */
    double memory_utilisation; /* out: part of that time in which its memory was read or written. */
    double clock_hertz;        /* out: of what computes. */
    double memory_clock_hertz; /* out */
    double temperature_celsius; /* out */
    double power_watts;         /* out: of the whole device. */
    uint32_t slowed_known;      /* out: 0 where the device does not tell what slows it. */
    uint32_t slowed_by;         /* out: TARE_SLOWED_BY bits. */
} tare_device_state_args;

typedef struct tare_device_state {
    size_t struct_size;
    /* [any thread] Also while other calls are under way and queries are timed: it holds nothing that
     * a run waits for. */
    tare_error *(*read)(tare_device_state_args *args);
} tare_device_state;

/* Memory of a session by the allocator of its engine, beside what the driver says. The table is a
 * tare_allocator. */
#define TARE_ALLOCATOR "tare/allocator/1"

typedef struct tare_allocator_args {
    size_t struct_size;
    tare_session *session;
    tare_string name;        /* out: as the engine calls it, such as "Cuda"; until the allocator is asked
                              * again or the session is released. */
    uint64_t used_bytes;     /* out: what is allocated from it now. */
    uint64_t peak_bytes;     /* out: the most that ever was; 0: unknown. */
    uint64_t reserved_bytes; /* out: what it holds of the device's memory, used or not; 0: unknown. */
} tare_allocator_args;

typedef struct tare_allocator {
    size_t struct_size;
    tare_error *(*read)(tare_allocator_args *args); /* [main thread] */
} tare_allocator;

/* Stages of a run, for backends whose runs copy by themselves. The table is a tare_stage_times. */
#define TARE_STAGE_TIMES "tare/stage-times/1"

typedef struct tare_stage_times_args {
    size_t struct_size;
    tare_run_args *run;   /* As for run; flags are 0. */
    uint64_t copy_in_ns;  /* out: from the host's memory to the device. */
    uint64_t compute_ns;  /* out: on the device. */
    uint64_t copy_out_ns; /* out: from the device to the host's memory. */
} tare_stage_times_args;

typedef struct tare_stage_times {
    size_t struct_size;
    /* [main thread] Does what run does, and says how long each stage took. It may be slower. */
    tare_error *(*run)(tare_stage_times_args *args);
} tare_stage_times;

/* Device time of a run, by the device's own events. The table is a tare_device_timer. */
#define TARE_DEVICE_TIMER "tare/device-timer/1"

typedef struct tare_device_timer_args {
    size_t struct_size;
    tare_run_args *run; /* As for run; flags are 0. */
    uint64_t device_ns; /* out: from when the device began with the run until it was done. Longer than
                         * the call is impossible, and taken for a mistake. */
} tare_device_timer_args;

typedef struct tare_device_timer {
    size_t struct_size;
    /* [main thread] Does what run does, and says how long the device was busy with it. It may be
     * slower. A backend that could only say how long the call took does not offer this. */
    tare_error *(*run)(tare_device_timer_args *args);
} tare_device_timer;

/* Operators of a run, and where each ran. The table is a tare_profile. */
#define TARE_PROFILE "tare/profile/1"

/* An operator as it ran: after fusion, so it may stand for several of the model's. */
typedef struct tare_operator {
    size_t struct_size;
    tare_string name;     /* Of the node, as the engine calls it. */
    tare_string kind;     /* Its type, such as "Conv"; empty if unknown. */
    tare_string provider; /* Provider that ran it, such as "CUDAExecutionProvider". Of a session that says
                           * "provider" of itself, operators of another provider fell back. */
    uint64_t start_ns;    /* Since the run began. */
    uint64_t duration_ns; /* Of its own: an operator that contains others leaves them out. */
} tare_operator;

typedef struct tare_profile_args {
    size_t struct_size;
    tare_session *session;
    tare_tensor *const *inputs; /* One for each input of the model. */
    size_t input_count;
    const tare_operator *const *operators; /* out, in order of start; until the session is profiled
                                            * again or released. At most 65536. */
    size_t operator_count;                 /* out */
} tare_profile_args;

typedef struct tare_profile {
    size_t struct_size;
    /* [main thread] Runs once more and says what ran where. It may be slow, and may run in another
     * session, of the same model with the same options, precision and shapes. */
    tare_error *(*profile)(tare_profile_args *args);
} tare_profile;

/* An end before a call is done. The table is a tare_cancel. */
#define TARE_CANCEL "tare/cancel/1"

typedef struct tare_cancel_args {
    size_t struct_size;
    tare_backend *backend;
} tare_cancel_args;

typedef struct tare_cancel {
    size_t struct_size;
    /* [any thread] Asks all calls that are under way to end soon, each with TARE_ERROR_CANCELLED, and
     * returns at once. Calls that begin afterwards are not concerned. The host asks before it ends the
     * process by force, and gives it a moment. */
    tare_error *(*cancel)(tare_cancel_args *args);
} tare_cancel;

/* Marks within a run: ends of phases, and moments such as tokens. The host takes all times by its own
 * clock. The table is a tare_marks. A backend that offers this does so for the modes other than inference
 * that it has. */
#define TARE_MARKS "tare/marks/1"

typedef struct tare_phases_args {
    size_t struct_size;
    tare_session *session;
    const tare_string *phases; /* out, until release: names of the phases that make up a run, in order, such
                                * as "forward", "backward", "update". Each is a lower-case word, or several
                                * joined by hyphens. At most 16. */
    size_t phase_count;        /* out; 0: a run is done in one call. */
} tare_phases_args;

typedef struct tare_marked_run_args {
    size_t struct_size;
    tare_run_args *run; /* As for run, the same in all phases; flags are 0. */
    uint32_t phase;     /* Which phase to do, from 0; 0 also if there are none. */
    uint32_t unused;    /* 0. */
    void *context;      /* For `mark`. */
    void (*mark)(void *context); /* To be called, on the thread of this call, whenever something that is
                                  * counted is complete, such as a token. */
} tare_marked_run_args;

typedef struct tare_marks {
    size_t struct_size;
    /* [main thread] Names the phases of a session's runs. */
    tare_error *(*phases)(tare_phases_args *args);
    /* [main thread] Does one phase of a run, and returns when the device is done with it. All phases in
     * order do what run does; outputs are complete after the last one. */
    tare_error *(*run)(tare_marked_run_args *args);
} tare_marks;

/* Evaluation of a model that is being trained. The table is a tare_training. In the mode "training" each run
 * is a step: it computes a loss on a batch and changes the weights. Beside the model's own, a session then has an
 * output "loss", the loss of the batch before its update once for each example, and an input "target" unless the
 * loss needs none. The weights of a session begin as the file has them, whatever other sessions did. */
#define TARE_TRAINING "tare/training/1"

typedef struct tare_training {
    size_t struct_size;
    /* [main thread] Computes outputs and loss of a batch with the weights that the steps so far have left, and
     * changes nothing. Returns when the device is done. Flags are 0. */
    tare_error *(*evaluate)(tare_run_args *args);
} tare_training;

/* Memory that the phases of a run take on the device. The table is a tare_phase_memory. A backend that offers this
 * offers tare_marks too. */
#define TARE_PHASE_MEMORY "tare/phase-memory/1"

typedef struct tare_phase_memory_args {
    size_t struct_size;
    tare_run_args *run;  /* As for run, the same in all phases; flags are 0. */
    uint32_t phase;      /* Which phase to do, from 0; 0 also if there are none. */
    uint32_t unused;     /* 0. */
    uint64_t peak_bytes; /* out: the most that tensors of this process took on the device during the phase. */
    uint64_t used_bytes; /* out: what they take at its end. */
} tare_phase_memory_args;

typedef struct tare_phase_memory {
    size_t struct_size;
    /* [main thread] Does one phase of a run as tare_marks does, and says what tensors took meanwhile: what the
     * engine's allocator gave out, and not what it holds of the device. It may be slower. */
    tare_error *(*run)(tare_phase_memory_args *args);
} tare_phase_memory;

/* Several threads at once. A backend that offers this takes the calls from prepare to tensor_destroy,
 * except load, and those of tare_marks, on any thread, several at the same time: on one model without limit, on one session and
 * the outputs that it writes by one thread at a time. A tensor that is nobody's output may be an input
 * of several. Handles are ended on any thread, once nobody else uses them. */
#define TARE_EXTENSION_THREADS "tare/threads/1"

typedef struct tare_threads {
    size_t struct_size;
} tare_threads;

/* ---- Sizes today, asserted where pointers have 64 bits; src/abi.rs asserts the same, and those of 1.0 -- */

#ifdef __cplusplus
#define TARE_ASSERT_SIZE(type, size)                                                               \
    static_assert(sizeof(void *) != 8 || sizeof(type) == (size), "the layout of " #type)
#else
#define TARE_ASSERT_SIZE(type, size)                                                               \
    _Static_assert(sizeof(void *) != 8 || sizeof(type) == (size), "the layout of " #type)
#endif

TARE_ASSERT_SIZE(tare_string, 16);
TARE_ASSERT_SIZE(tare_attribute, 32);
TARE_ASSERT_SIZE(tare_dtype, 4);
TARE_ASSERT_SIZE(tare_dimension, 24);
TARE_ASSERT_SIZE(tare_shape, 16);
TARE_ASSERT_SIZE(tare_view, 48);
TARE_ASSERT_SIZE(tare_error, 56);
TARE_ASSERT_SIZE(tare_description, 104);
TARE_ASSERT_SIZE(tare_device, 96);
TARE_ASSERT_SIZE(tare_tensor_info, 48);
TARE_ASSERT_SIZE(tare_model_info, 40);
TARE_ASSERT_SIZE(tare_session_info, 24);
TARE_ASSERT_SIZE(tare_describe_args, 24);
TARE_ASSERT_SIZE(tare_devices_args, 32);
TARE_ASSERT_SIZE(tare_load_args, 104);
TARE_ASSERT_SIZE(tare_prepare_args, 88);
TARE_ASSERT_SIZE(tare_run_args, 56);
TARE_ASSERT_SIZE(tare_synchronise_args, 16);
TARE_ASSERT_SIZE(tare_release_args, 16);
TARE_ASSERT_SIZE(tare_unload_args, 16);
TARE_ASSERT_SIZE(tare_destroy_args, 16);
TARE_ASSERT_SIZE(tare_tensor_create_args, 32);
TARE_ASSERT_SIZE(tare_tensor_describe_args, 40);
TARE_ASSERT_SIZE(tare_tensor_read_args, 24);
TARE_ASSERT_SIZE(tare_tensor_destroy_args, 16);
TARE_ASSERT_SIZE(tare_progress, 32);
TARE_ASSERT_SIZE(tare_host_api, 72);
TARE_ASSERT_SIZE(tare_backend_api, 136);
TARE_ASSERT_SIZE(tare_threads, 8);
TARE_ASSERT_SIZE(tare_device_energy_args, 40);
TARE_ASSERT_SIZE(tare_device_energy, 16);
TARE_ASSERT_SIZE(tare_device_memory_args, 48);
TARE_ASSERT_SIZE(tare_device_memory, 16);
TARE_ASSERT_SIZE(tare_device_state_args, 88);
TARE_ASSERT_SIZE(tare_device_state, 16);
TARE_ASSERT_SIZE(tare_allocator_args, 56);
TARE_ASSERT_SIZE(tare_allocator, 16);
TARE_ASSERT_SIZE(tare_stage_times_args, 40);
TARE_ASSERT_SIZE(tare_stage_times, 16);
TARE_ASSERT_SIZE(tare_device_timer_args, 24);
TARE_ASSERT_SIZE(tare_device_timer, 16);
TARE_ASSERT_SIZE(tare_operator, 72);
TARE_ASSERT_SIZE(tare_profile_args, 48);
TARE_ASSERT_SIZE(tare_profile, 16);
TARE_ASSERT_SIZE(tare_cancel_args, 16);
TARE_ASSERT_SIZE(tare_cancel, 16);
TARE_ASSERT_SIZE(tare_phases_args, 32);
TARE_ASSERT_SIZE(tare_marked_run_args, 40);
TARE_ASSERT_SIZE(tare_marks, 24);
TARE_ASSERT_SIZE(tare_training, 16);
TARE_ASSERT_SIZE(tare_phase_memory_args, 40);
TARE_ASSERT_SIZE(tare_phase_memory, 16);

#ifdef __cplusplus
}
#endif

#endif /* TARE_PLUGIN_API_H */
