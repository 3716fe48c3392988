// An empty file system on libfuse's low-level interface, to stand beside ours: `gupfs bench door --beside libfuse=…`.
//
// `libfuse_null [-o io_uring] MOUNTPOINT` mounts it until it is unmounted. The same names, sizes and lifetimes as
// `gupfs_fuse::nullfs`, the same flags, libfuse's own loop with as many threads as it likes, each with its own descriptor.
// Built by scripts/libfuse_null.sh. Link counts and refused memory are not looked at: it lives for a measurement.

#define FUSE_USE_VERSION 314
#define _GNU_SOURCE
#include <errno.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILES 100000
#define TTL 3600.0
#define MIB (1 << 20)

struct file {
    char *name;
    fuse_ino_t ino;
    off_t size;
};

// As Rust's: tries for a moment before it sleeps.
static pthread_mutex_t lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
// By name, a tree of the C library. By number, an array: numbers begin at 2 and only grow, a removed file leaves NULL.
static void *names;
static struct file **files;
static size_t last = FUSE_ROOT_ID, room;
static char zeros[2 * MIB];

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

static struct file *find(const char *name) {
    struct file key = {.name = (char *)name};
    struct file **found = tfind(&key, &names, by_name);
    return found ? *found : NULL;
}

static struct file *numbered(fuse_ino_t ino) {
    return ino > FUSE_ROOT_ID && ino <= last ? files[ino] : NULL;
}

static struct file *add(const char *name) {
    struct file *file = malloc(sizeof *file);
    *file = (struct file){strdup(name), ++last, 0};
    if (last >= room) files = realloc(files, (room = 2 * last) * sizeof *files);
    files[last] = file;
    tsearch(file, &names, by_name);
    return file;
}

// Files whose names begin so are asked for their attributes each time.
static double lifetime(const struct file *file) {
    return file && strncmp(file->name, "asks", 4) == 0 ? 0 : TTL;
}

static struct stat attr(const struct file *file) {
    return (struct stat){
        .st_ino = file ? file->ino : FUSE_ROOT_ID,
        .st_mode = file ? S_IFREG | 0666 : S_IFDIR | 0777,
        .st_nlink = file ? 1 : 2,
        .st_size = file ? file->size : 0,
        .st_blksize = MIB,
    };
}

static struct fuse_entry_param entry(const struct file *file) {
    return (struct fuse_entry_param){
        .ino = file->ino,
        .attr = attr(file),
        .attr_timeout = lifetime(file),
        .entry_timeout = TTL,
    };
}

static void direct(struct fuse_file_info *fi) {
    fi->direct_io = 1;
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 15)  // older ones have no way to say it
    fi->parallel_direct_writes = 1;
#endif
}

static void init(void *rings, struct fuse_conn_info *conn) {
    conn->max_write = MIB;
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)
    fuse_set_feature_flag(conn, FUSE_CAP_PARALLEL_DIROPS);
#else
    conn->want |= FUSE_CAP_PARALLEL_DIROPS;
#endif
#ifndef FUSE_CAP_OVER_IO_URING
    (void)rings;
#else
    // Otherwise it would go on without, and be measured as if with.
    if (rings && !(conn->capable_ext & FUSE_CAP_OVER_IO_URING)) {
        fprintf(stderr, "libfuse_null: the kernel does not offer io_uring\n");
        exit(1);
    }
#endif
}

static void lookup(fuse_req_t req, fuse_ino_t parent, const char *name) {
    (void)parent;
    pthread_mutex_lock(&lock);
    struct file *file = find(name);
    struct fuse_entry_param found = file ? entry(file) : (struct fuse_entry_param){0};
    pthread_mutex_unlock(&lock);
    file ? fuse_reply_entry(req, &found) : fuse_reply_err(req, ENOENT);
}

static void forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups) {
    (void)ino, (void)lookups;
    fuse_reply_none(req);
}

// SETATTR, and GETATTR with nothing to set.
static void setattr(fuse_req_t req, fuse_ino_t ino, struct stat *to, int set, struct fuse_file_info *fi) {
    (void)fi;
    pthread_mutex_lock(&lock);
    struct file *file = numbered(ino);
    if (file && set & FUSE_SET_ATTR_SIZE) file->size = to->st_size;
    struct stat now = attr(file);
    double ttl = lifetime(file);
    pthread_mutex_unlock(&lock);
    file || ino == FUSE_ROOT_ID ? fuse_reply_attr(req, &now, ttl) : fuse_reply_err(req, ESTALE);
}

static void getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi) {
    setattr(req, ino, NULL, 0, fi);
}

static void create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi) {
    (void)parent, (void)mode;
    pthread_mutex_lock(&lock);
    struct fuse_entry_param created = entry(add(name));
    pthread_mutex_unlock(&lock);
    direct(fi);
    fuse_reply_create(req, &created, fi);
}

static void unlink_(fuse_req_t req, fuse_ino_t parent, const char *name) {
    (void)parent;
    pthread_mutex_lock(&lock);
    struct file *file = find(name);
    if (file) {
        tdelete(file, &names, by_name);
        files[file->ino] = NULL;
        free(file->name);
        free(file);
    }
    pthread_mutex_unlock(&lock);
    fuse_reply_err(req, file ? 0 : ENOENT);
}

static void open_(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi) {
    (void)ino;
    direct(fi);
    fuse_reply_open(req, fi);
}

static void read_(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi) {
    (void)fi;
    pthread_mutex_lock(&lock);
    struct file *file = numbered(ino);
    off_t left = file && file->size > offset ? file->size - offset : 0;
    pthread_mutex_unlock(&lock);
    if ((size_t)left < size) size = left;
    fuse_reply_buf(req, zeros, size < sizeof zeros ? size : sizeof zeros);
}

static void write_(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset,
                   struct fuse_file_info *fi) {
    (void)data, (void)fi;
    pthread_mutex_lock(&lock);
    struct file *file = numbered(ino);
    if (file && file->size < offset + (off_t)size) file->size = offset + size;
    pthread_mutex_unlock(&lock);
    fuse_reply_write(req, size);
}

static void release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi) {
    (void)ino, (void)fi;
    fuse_reply_err(req, 0);
}

// The offset of a name is its number.
static void list(fuse_req_t req, size_t size, fuse_ino_t ino, int with_attributes) {
    char *bytes = malloc(size);
    size_t used = 0;
    pthread_mutex_lock(&lock);
    for (ino = ino < FUSE_ROOT_ID ? FUSE_ROOT_ID : ino; ++ino <= last;) {
        struct file *file = files[ino];
        if (!file) continue;
        struct fuse_entry_param found = entry(file);
        char *at = bytes + used;
        size_t more = with_attributes
                          ? fuse_add_direntry_plus(req, at, size - used, file->name, &found, ino)
                          : fuse_add_direntry(req, at, size - used, file->name, &found.attr, ino);
        if (more > size - used) break;
        used += more;
    }
    pthread_mutex_unlock(&lock);
    fuse_reply_buf(req, bytes, used);
    free(bytes);
}

static void readdir_(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi) {
    (void)ino, (void)fi;
    list(req, size, offset, 0);
}

static void readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi) {
    (void)ino, (void)fi;
    list(req, size, offset, 1);
}

static const struct fuse_lowlevel_ops operations = {
    .init = init,
    .lookup = lookup,
    .forget = forget,
    .getattr = getattr,
    .setattr = setattr,
    .create = create,
    .unlink = unlink_,
    .open = open_,
    .read = read_,
    .write = write_,
    .release = release,
    .readdir = readdir_,
    .readdirplus = readdirplus,
};

int main(int argc, char **argv) {
    for (int number = 0; number < FILES; number++) {
        char name[32];
        snprintf(name, sizeof name, "there-%08d", number);
        add(name);
    }
    void *rings = NULL;
    for (int at = 1; at < argc; at++)
        if (strstr(argv[at], "io_uring")) rings = argv[at];
    struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
    struct fuse_cmdline_opts options;
    if (fuse_parse_cmdline(&args, &options) != 0 || !options.mountpoint) {
        fprintf(stderr, "usage: libfuse_null [-o io_uring] MOUNTPOINT\n");
        return 2;
    }
    fuse_opt_add_arg(&args, "-oallow_other,default_permissions,fsname=nothing,subtype=libfuse_null");
    struct fuse_session *session = fuse_session_new(&args, &operations, sizeof operations, rings);
    if (!session || fuse_set_signal_handlers(session) != 0 || fuse_session_mount(session, options.mountpoint) != 0)
        return 1;
    struct fuse_loop_config *loop = fuse_loop_cfg_create();
    fuse_loop_cfg_set_clone_fd(loop, 1);
    int failed = fuse_session_loop_mt(session, loop);
    fuse_session_unmount(session);
    return failed != 0;
}
