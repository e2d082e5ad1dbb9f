/* Programs that become other programs, lose their first thread, move maps and rename files. The
   first argument says what, the second is a file to read. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;
static const char *path;

static int opened(const char *name, int flags) {
    int fd = open(name, flags, 0644);
    if (fd < 0) exit(9);
    return fd;
}

static void read_whole(const char *name) {
    char block[4096];
    int fd = opened(name, O_RDONLY);
    while (read(fd, block, sizeof block) > 0) {}
    close(fd);
}

static int sum_of(const char *map, size_t length) {
    int sum = 0;
    for (size_t at = 0; at < length; at += 4096) sum += map[at];
    return sum;
}

static void *go_on(void *unused) {
    usleep(200000);
    read_whole(path);
    exit(0);
    return unused;
}

static void become(const char *how) {
    char *words[] = {"sh", "-c", "echo $HEADRACE_TEST $#", "sh", "1", "2", "3", "4", "5", NULL};
    if (!strcmp(how, "execl"))
        execl("/bin/sh", "sh", "-c", words[2], "sh", "1", "2", "3", "4", "5", NULL);
    if (!strcmp(how, "execlp"))
        execlp("sh", "sh", "-c", words[2], "sh", "1", "2", "3", "4", "5", NULL);
    if (!strcmp(how, "execle"))
        execle("/bin/sh", "sh", "-c", words[2], "sh", "1", "2", "3", "4", "5", NULL, environ);
    if (!strcmp(how, "fexecve")) fexecve(opened("/bin/sh", O_RDONLY), words, environ);
    if (!strcmp(how, "execveat")) execveat(opened("/bin", O_PATH), "sh", words, environ, 0);
    if (!strcmp(how, "by_number")) syscall(SYS_execve, "/bin/sh", words, environ);
}

int main(int count, char **words) {
    const char *how = words[count > 1 ? 1 : 0];
    path = words[count > 2 ? 2 : 0];
    size_t length;
    setenv("HEADRACE_TEST", "given", 1);
    if (!strcmp(how, "leader")) {
        pthread_t other;
        pthread_create(&other, NULL, go_on, NULL);
        pthread_exit(NULL);
    }
    if (!strcmp(how, "ring")) {
        char parameters[120] = {0};
        int ring = syscall(SYS_io_uring_setup, 4, parameters);
        return ring < 0 ? 8 : close(ring);
    }
    if (!strcmp(how, "moved_map")) {
        int fd = opened(path, O_RDONLY);
        length = lseek(fd, 0, SEEK_END);
        char *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
        map = mremap(map, 4096, length, MREMAP_MAYMOVE);
        printf("%d\n", sum_of(map, length));
        map = mremap(map, length, length / 2, 0);
        return munmap(map, length / 2);
    }
    if (!strcmp(how, "renamed")) {
        int fd = opened("part", O_WRONLY | O_CREAT);
        if (write(fd, words, 8) != 8 || close(fd) || rename("part", "whole")) return 7;
        read_whole("whole");
        return renameat(AT_FDCWD, "whole", AT_FDCWD, "last") || access("last", R_OK);
    }
    if (!strcmp(how, "in_vain")) {
        if (execl("/nowhere", "nowhere", NULL) != -1 || errno != ENOENT) return 6;
        if (execlp("no-such-program", "no-such-program", NULL) != -1) return 6;
        read_whole(path);
        return 0;
    }
    int fd = opened(path, O_RDONLY);
    length = lseek(fd, 0, SEEK_END);
    printf("%s", sum_of(mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0), length) ? "" : "0");
    become(how);
    return 4;
}
