// What one ring for the kernel's requests and a server's answers would bring: an empty FUSE file system whose GETATTR
// is answered after a round trip over TCP to an echo server in another process, waited for in several ways.
//
//   cc -O2 -o one_ring one_ring.c -luring && ./one_ring DIR SECONDS PROGRAMS MODE…
//
// Modes: `device` one thread waits for /dev/fuse and the socket with epoll; `cpu` a pinned thread and ring for each CPU
// with a socket of its own; `one` a single thread, ring and socket for all queues. With `-poll` after 100 µs without
// anything (sched_yield between looks), else asleep at once. The server polls in the same way. Prints trips a second, and
// microseconds of processor and switches of thread for a trip, of both daemons.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/fuse.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Newer than some headers.
#define REGISTER 1
#define COMMIT_AND_FETCH 2
struct place_head { char in_out[128]; char op_in[128]; uint64_t flags, commit_id; uint32_t payload_sz, padding; uint64_t reserved; };
struct place_command { uint64_t flags, commit_id; uint16_t qid; uint8_t padding[6]; };

#define MESSAGE 128
#define DEPTH 16
#define PAYLOAD (1 << 20)
#define WINDOW 100000L

static void check(int ok, const char *what) {
	if (!ok) { perror(what); exit(1); }
}

static long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

// ---------------------------------------------------------------- the server

static void serve(int listener, int polling) {
	int epoll = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, ready[16];
	epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
	long last = 0;
	for (;;) {
		int wait = polling && now() - last < WINDOW ? 0 : -1;
		int count = epoll_wait(epoll, ready, 16, wait);
		if (count <= 0) { sched_yield(); continue; }
		last = now();
		for (int i = 0; i < count; i++) {
			if (ready[i].data.fd == listener) {
				int fd = accept(listener, 0, 0), one = 1;
				setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
				event.data.fd = fd;
				epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
				continue;
			}
			char bytes[64 * MESSAGE];
			ssize_t length = recv(ready[i].data.fd, bytes, sizeof bytes, 0);
			if (length <= 0) { close(ready[i].data.fd); continue; }
			check(send(ready[i].data.fd, bytes, length, MSG_NOSIGNAL) == length, "send");
		}
	}
}

static int dial(int port) {
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	check(connect(fd, (void *)&to, sizeof to) == 0, "connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	return fd;
}

// ---------------------------------------------------------------- the file system

static void attributes(struct fuse_attr *a, uint64_t node) {
	memset(a, 0, sizeof *a);
	a->ino = node;
	a->mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0644;
	a->nlink = 1;
	a->blksize = 4096;
}

// The answer's body, or a negative errno. `ask`: GETATTR of the file is answered by the server.
static int answer(uint32_t opcode, uint64_t node, void *body, int *ask) {
	*ask = 0;
	if (opcode == FUSE_LOOKUP) {
		struct fuse_entry_out *entry = body;
		memset(entry, 0, sizeof *entry);
		entry->nodeid = 2;
		entry->entry_valid = 3600;
		attributes(&entry->attr, 2);
		return sizeof *entry;
	}
	if (opcode == FUSE_GETATTR) {
		struct fuse_attr_out *out = body;
		memset(out, 0, sizeof *out);
		out->attr_valid = node == 1 ? 3600 : 0;
		attributes(&out->attr, node);
		*ask = node != 1;
		return sizeof *out;
	}
	return -ENOSYS;
}

static void reply(int fuse, uint64_t unique, void *body, int length) {
	struct fuse_out_header head = {.unique = unique, .error = length < 0 ? length : 0};
	struct iovec pieces[] = {{&head, sizeof head}, {body, length < 0 ? 0 : length}};
	head.len = sizeof head + pieces[1].iov_len;
	if (writev(fuse, pieces, 2) < 0 && errno != ENOENT) perror("answer");
}

static void greet(int fuse, int rings) {
	char bytes[1 << 16];
	ssize_t length = read(fuse, bytes, sizeof bytes);
	check(length > 0, "INIT");
	struct fuse_in_header *in = (void *)bytes;
	struct fuse_init_in *asked = (void *)(in + 1);
	struct fuse_init_out out = {.major = 7, .minor = asked->minor, .max_readahead = 131072, .max_write = PAYLOAD,
		.max_pages = 256, .max_background = 64, .congestion_threshold = 48};
	out.flags = FUSE_MAX_PAGES | FUSE_BIG_WRITES | (1u << 30) | FUSE_PARALLEL_DIROPS;
	if (rings) out.flags2 = 1 << 9;
	reply(fuse, in->unique, &out, sizeof out);
}

// Requests of the device that come beside rings.
static void *beside(void *fuse) {
	static char bytes[2 << 20], body[4096];
	for (;;) {
		ssize_t length = read((int)(long)fuse, bytes, sizeof bytes);
		if (length < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT)) continue;
		if (length <= 0) return 0;
		struct fuse_in_header *in = (void *)bytes;
		if (in->opcode == FUSE_FORGET || in->opcode == FUSE_BATCH_FORGET || in->opcode == FUSE_INTERRUPT) continue;
		int ask, made = answer(in->opcode, in->nodeid, body, &ask);
		reply((int)(long)fuse, in->unique, body, made);
	}
}

static void by_device(int fuse, int port, int polling) {
	static char bytes[2 << 20], body[4096], heard[64 * MESSAGE];
	int socket = dial(port), epoll = epoll_create1(0), have = 0;
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fuse}, ready[2];
	epoll_ctl(epoll, EPOLL_CTL_ADD, fuse, &event);
	event.data.fd = socket;
	epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event);
	fcntl(fuse, F_SETFL, O_NONBLOCK);
	for (long last = 0;;) {
		int wait = polling && now() - last < WINDOW ? 0 : -1;
		int count = epoll_wait(epoll, ready, 2, wait);
		if (count <= 0) { sched_yield(); continue; }
		last = now();
		for (int i = 0; i < count; i++) {
			if (ready[i].data.fd == socket) {
				ssize_t length = recv(socket, heard + have, sizeof heard - have, 0);
				check(length > 0, "recv");
				have += length;
				int at = 0;
				for (; have - at >= MESSAGE; at += MESSAGE) {
					int ask, made = answer(FUSE_GETATTR, 2, body, &ask);
					reply(fuse, *(uint64_t *)(heard + at), body, made);
				}
				memmove(heard, heard + at, have -= at);
				continue;
			}
			ssize_t length = read(fuse, bytes, sizeof bytes);
			if (length < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOENT)) continue;
			if (length <= 0) exit(0);
			struct fuse_in_header *in = (void *)bytes;
			if (in->opcode == FUSE_FORGET || in->opcode == FUSE_BATCH_FORGET || in->opcode == FUSE_INTERRUPT) continue;
			int ask, made = answer(in->opcode, in->nodeid, body, &ask);
			if (!ask) { reply(fuse, in->unique, body, made); continue; }
			char message[MESSAGE] = {0};
			*(uint64_t *)message = in->unique;
			check(send(socket, message, MESSAGE, MSG_NOSIGNAL) == MESSAGE, "send");
		}
	}
}

struct place {
	struct place_head head;
	struct iovec shown[2];
	char message[MESSAGE];
	int queue, made;
	char *payload;
};

struct reactor { int fuse, socket, cpu, first, queues, polling; };

#define HEARD 1000000
#define SENT 1000001

static void hand(struct io_uring *ring, struct place *place, int number, int command) {
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	check(sqe != 0, "a full ring");
	memset(sqe, 0, 128);
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = 0;
	sqe->flags = IOSQE_FIXED_FILE;
	sqe->cmd_op = command;
	struct place_command *asked = (void *)sqe->cmd;
	if (command == REGISTER) {
		sqe->addr = (uint64_t)place->shown;
		sqe->len = 2;
	} else {
		asked->commit_id = place->head.commit_id;
	}
	asked->qid = place->queue;
	sqe->user_data = number;
}

static void finish(struct io_uring *ring, struct place *place, int number, uint64_t unique, int made) {
	struct fuse_out_header *out = (void *)place->head.in_out;
	int length = made < 0 ? 0 : made;
	out->unique = unique;
	out->error = made < 0 ? made : 0;
	out->len = sizeof *out + length;
	place->head.payload_sz = length;
	hand(ring, place, number, COMMIT_AND_FETCH);
}

static void listen_on(struct io_uring *ring, int socket, char *heard, int have) {
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	memset(sqe, 0, 128);
	io_uring_prep_recv(sqe, socket, heard + have, 64 * MESSAGE - have, 0);
	sqe->user_data = HEARD;
}

static void *react(void *given) {
	struct reactor *r = given;
	if (r->cpu >= 0) {
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(r->cpu, &set);
		sched_setaffinity(0, sizeof set, &set);
	}
	struct io_uring ring;
	int flags = IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL;
	struct io_uring_params params = {.flags = flags | IORING_SETUP_CQSIZE, .cq_entries = 1024};
	check(io_uring_queue_init_params(256, &ring, &params) == 0, "ring");
	check(io_uring_register_files(&ring, &r->fuse, 1) == 0, "register");
	int count = r->queues * DEPTH, have = 0;
	struct place *places = aligned_alloc(4096, (count * sizeof *places + 4095) & ~4095L);
	memset(places, 0, count * sizeof *places);
	char *heard = malloc(64 * MESSAGE);
	for (int i = 0; i < count; i++) {
		places[i].queue = r->first + i / DEPTH;
		places[i].payload = aligned_alloc(4096, PAYLOAD);
		places[i].shown[0] = (struct iovec){&places[i].head, sizeof places[i].head};
		places[i].shown[1] = (struct iovec){places[i].payload, PAYLOAD};
		hand(&ring, &places[i], i, REGISTER);
	}
	listen_on(&ring, r->socket, heard, have);
	for (long last = 0;;) {
		if (io_uring_cq_ready(&ring) == 0) {
			if (r->polling && now() - last < WINDOW) {
				io_uring_submit_and_get_events(&ring);
				if (io_uring_cq_ready(&ring) == 0) { sched_yield(); continue; }
			} else {
				io_uring_submit_and_wait(&ring, 1);
			}
		}
		last = now();
		struct io_uring_cqe *cqe;
		unsigned head, seen = 0;
		io_uring_for_each_cqe(&ring, head, cqe) {
			seen++;
			if (cqe->user_data == SENT) continue;
			if (cqe->user_data == HEARD) {
				check(cqe->res > 0, "recv");
				have += cqe->res;
				int at = 0;
				for (; have - at >= MESSAGE; at += MESSAGE) {
					uint64_t *words = (void *)(heard + at);
					int number = words[1];
					finish(&ring, &places[number], number, words[0], places[number].made);
				}
				memmove(heard, heard + at, have -= at);
				listen_on(&ring, r->socket, heard, have);
				continue;
			}
			int number = cqe->user_data;
			struct place *place = &places[number];
			if (cqe->res < 0) {
				if (cqe->res != -ENOTCONN && cqe->res != -ECANCELED) fprintf(stderr, "place: %s\n", strerror(-cqe->res));
				exit(0);
			}
			struct fuse_in_header *in = (void *)place->head.in_out;
			int ask;
			uint64_t unique = in->unique;
			place->made = answer(in->opcode, in->nodeid, place->payload, &ask);
			if (!ask) { finish(&ring, place, number, unique, place->made); continue; }
			((uint64_t *)place->message)[0] = unique;
			((uint64_t *)place->message)[1] = number;
			struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
			memset(sqe, 0, 128);
			io_uring_prep_send(sqe, r->socket, place->message, MESSAGE, MSG_NOSIGNAL);
			sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
			sqe->user_data = SENT;
		}
		io_uring_cq_advance(&ring, seen);
	}
}

static void by_rings(int fuse, int port, int one, int polling) {
	int cpus = sysconf(_SC_NPROCESSORS_CONF);
	pthread_t thread;
	pthread_create(&thread, 0, beside, (void *)(long)fuse);
	int reactors = one ? 1 : cpus;
	for (int i = 0; i < reactors; i++) {
		struct reactor *r = malloc(sizeof *r);
		*r = (struct reactor){fuse, dial(port), one ? -1 : i, one ? 0 : i, one ? cpus : 1, polling};
		pthread_create(&thread, 0, react, r);
	}
	pthread_join(thread, 0);
}

// ---------------------------------------------------------------- the measurement

// A child's processor time in microseconds and its switches.
static void used(int pid, double *micros, double *switches) {
	char path[64], line[256];
	*micros = *switches = 0;
	snprintf(path, sizeof path, "ls /proc/%d/task", pid);
	FILE *tasks = popen(path, "r");
	int task;
	while (fscanf(tasks, "%d", &task) == 1) {
		snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", pid, task);
		FILE *file = fopen(path, "r");
		long ran, waited, slices;
		if (file && fscanf(file, "%ld %ld %ld", &ran, &waited, &slices) == 3) { *micros += ran / 1e3; }
		if (file) fclose(file);
		snprintf(path, sizeof path, "/proc/%d/task/%d/status", pid, task);
		file = fopen(path, "r");
		while (file && fgets(line, sizeof line, file)) {
			long count;
			if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1) *switches += count;
		}
		if (file) fclose(file);
	}
	pclose(tasks);
}

static void measure(const char *dir, double seconds, int programs, const char *mode) {
	int polling = strstr(mode, "-poll") != 0;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof at;
	check(bind(listener, (void *)&at, sizeof at) == 0 && listen(listener, 16) == 0, "listen");
	getsockname(listener, (void *)&at, &length);
	int server = fork();
	if (server == 0) { serve(listener, polling); exit(0); }
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[128];
	snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse);
	check(mount("one_ring", dir, "fuse.one_ring", 0, options) == 0, "mount");
	int daemon = fork();
	if (daemon == 0) {
		close(listener);
		int rings = strncmp(mode, "device", 6) != 0;
		greet(fuse, rings);
		if (rings) by_rings(fuse, ntohs(at.sin_port), strncmp(mode, "one", 3) == 0, polling);
		else by_device(fuse, ntohs(at.sin_port), polling);
		exit(0);
	}
	close(fuse);
	close(listener);
	usleep(300000);
	int pipes[2];
	check(pipe(pipes) == 0, "pipe");
	double before[2][2], after[2][2];
	used(daemon, &before[0][0], &before[0][1]);
	used(server, &before[1][0], &before[1][1]);
	for (int i = 0; i < programs; i++) {
		if (fork() == 0) {
			char path[4096];
			struct stat found;
			snprintf(path, sizeof path, "%s/f%d", dir, i);
			long trips = 0, begun = now(), end = begun + seconds * 1e9;
			for (; now() < end; trips++) check(stat(path, &found) == 0, "stat");
			check(write(pipes[1], &trips, sizeof trips) == sizeof trips, "said");
			_exit(0);
		}
	}
	long all = 0, trips;
	for (int i = 0; i < programs; i++) {
		check(read(pipes[0], &trips, sizeof trips) == sizeof trips, "heard");
		all += trips;
	}
	used(daemon, &after[0][0], &after[0][1]);
	used(server, &after[1][0], &after[1][1]);
	printf("%-12s %d programs  %7.0f trips/s  %6.1f us each  daemon %5.1f us %4.2f switches  server %5.1f us %4.2f switches\n", mode, programs,
		all / seconds, programs * seconds * 1e6 / all, (after[0][0] - before[0][0]) / all, (after[0][1] - before[0][1]) / all,
		(after[1][0] - before[1][0]) / all, (after[1][1] - before[1][1]) / all);
	fflush(stdout);
	umount2(dir, MNT_DETACH);
	kill(daemon, SIGKILL);
	kill(server, SIGKILL);
	while (wait(0) > 0) {}
	close(pipes[0]);
	close(pipes[1]);
}

int main(int argc, char **argv) {
	if (argc < 5) { fprintf(stderr, "usage: %s DIR SECONDS PROGRAMS MODE…\n", argv[0]); return 2; }
	for (int i = 4; i < argc; i++) measure(argv[1], atof(argv[2]), atoi(argv[3]), argv[i]);
}
