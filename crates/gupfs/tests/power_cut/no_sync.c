/* Preloaded: every call that makes data durable says yes and does nothing. The control of the power cut test. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

int fsync(int fd) { (void)fd; return 0; }
int fdatasync(int fd) { (void)fd; return 0; }
int syncfs(int fd) { (void)fd; return 0; }
void sync(void) {}
int sync_file_range(int fd, off64_t at, off64_t length, unsigned flags) {
    (void)fd; (void)at; (void)length; (void)flags;
    return 0;
}
