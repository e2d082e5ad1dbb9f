/* Programs that do to descriptors, processes, signals and limits what a recorder must live with: unruly NAME.
 * Each works on files of the working directory and prints what it found; recorded or not, that must be the same. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* More than a segment of the recorder holds, so that it needs another in the middle. */
enum { MANY = 2500 };

static void must(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(99);
    }
}

static int make(const char *name) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    must(fd >= 0, name);
    return fd;
}

static void many_writes(int fd, const char *text, int count) {
    for (int n = 0; n < count; ++n)
        must(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "write");
}

static void say_size(int fd, const char *name) {
    struct stat facts;
    must(fstat(fd, &facts) == 0, "fstat");
    printf("%s: %lld bytes\n", name, (long long)facts.st_size);
}

/* One's own file on every descriptor that there can be. */
static void dup2_everywhere(void) {
    int fd = make("own");
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    int most = limit.rlim_cur < 4096 ? (int)limit.rlim_cur : 4096;
    for (int n = 3; n < most; ++n) {
        if (n != fd)
            must(dup2(fd, n) == n, "dup2");
        many_writes(n, "ab", 3);
    }
    for (int n = 3; n < most; ++n)
        many_writes(n, "c", 1);
    say_size(fd, "own");
}

static void take_every_descriptor(void) {
    int last = -1, count = 0;
    for (int fd; (fd = open("shared", O_RDWR | O_CREAT | O_APPEND, 0644)) >= 0; ++count) {
        last = fd;
        many_writes(fd, "x", 2);
    }
    printf("%d opened, then: %s\n", count, strerror(errno));
    many_writes(last, "y", MANY);
    fflush(stdout);
    if (fork() == 0) {
        many_writes(last, "z", MANY);
        _exit(0);
    }
    wait(NULL);
    say_size(last, "shared");
}

static void close_all(void) {
    int fd = make("a");
    many_writes(fd, "1", MANY);
    must(close_range(3, ~0U, 0) == 0, "close_range");
    must(write(fd, "lost", 4) == -1 && errno == EBADF, "closed");
    fd = make("b");
    printf("next: %d\n", fd);
    many_writes(fd, "22", MANY);
    closefrom(3);
    fd = make("c");
    printf("next: %d\n", fd);
    many_writes(fd, "333", MANY);
    for (int n = 3; n < 70000; ++n)
        close(n);
    fd = make("d");
    printf("next: %d\n", fd);
    many_writes(fd, "4444", MANY);
    must(syscall(SYS_close_range, 3, ~0U, 0) == 0, "raw close_range");
    fd = make("e");
    printf("next: %d\n", fd);
    many_writes(fd, "55555", MANY);
    /* Past every hook: what stands for `e` is now a pipe. */
    int ends[2];
    must(pipe(ends) == 0 && syscall(SYS_dup2, ends[1], fd) == fd, "raw dup2");
    many_writes(fd, "p", 10);
    must(write(fd, "pp", 2) == 2, "write to a pipe");
}

static int raw_fork(void) { return (int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

static void fork_raw(void) {
    int fd = make("parent");
    many_writes(fd, "p", 10);
    fflush(stdout);
    for (int n = 0; n < 3; ++n) {
        int child = n == 0 ? raw_fork() : n == 1 ? (int)syscall(SYS_fork) : (int)_Fork();
        if (child == 0) {
            char name[] = "child0";
            name[5] = (char)('0' + n);
            int own = make(name);
            many_writes(own, "c", MANY);
            if (raw_fork() == 0) {
                many_writes(own, "g", MANY);
                syscall(SYS_exit_group, 0);
            }
            wait(NULL);
            _exit(7);
        }
        many_writes(fd, "P", MANY);
        int status;
        waitpid(child, &status, 0);
        printf("child: %d\n", WEXITSTATUS(status));
        fflush(stdout);
    }
    say_size(fd, "parent");
}

static void vfork_and_spawn(void) {
    int fd = make("out");
    fflush(stdout);
    int child = vfork();
    if (child == 0) {
        dup2(fd, 1);
        execlp("echo", "echo", "from vfork", NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, 1);
    char *words[] = {"echo", "from posix_spawn", NULL};
    must(posix_spawnp(&child, "echo", &actions, NULL, words, environ) == 0, "posix_spawnp");
    waitpid(child, NULL, 0);
    must(posix_spawnp(&child, "no-such-program", NULL, NULL, words, environ) != 0, "no such program");
    struct clone_args how = {.exit_signal = SIGCHLD};
    if (syscall(SYS_clone3, &how, sizeof how) == 0) {
        many_writes(fd, "3", MANY);
        _exit(0);
    }
    wait(NULL);
    if ((child = vfork()) == 0) {
        execl("/no/such/program", "x", NULL);
        execvp("no-such-program", words);
        _exit(errno == ENOENT ? 44 : 45);
    }
    int status;
    waitpid(child, &status, 0);
    printf("exec that failed: %d\n", WEXITSTATUS(status));
    must(execv("/no/such/program", words) == -1, "execv");
    many_writes(fd, "on", MANY);
    say_size(fd, "out");
}

static int in_fd, handler_fd;
static volatile long handled;
static volatile int unmasked;
static sigjmp_buf back;

static void with_io(int number) {
    (void)number;
    char to[8];
    int before = errno;
    if (write(handler_fd, "h", 1) == 1 && pread(in_fd, to, 1, 0) >= 0)
        ++handled;
    errno = before;
}

static void and_jump(int number) {
    with_io(number);
    if (unmasked)
        siglongjmp(back, 1);
}

static void alarms(void (*handler)(int), int which, int number, int stack) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | (stack ? SA_ONSTACK : 0)};
    sigaction(number, &action, NULL);
    struct itimerval every = {{0, 150}, {0, 150}};
    setitimer(which, &every, NULL);
}

static void stop_alarms(int which) {
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(which, &never, NULL);
}

static void signals(int which, int number, int jumps) {
    in_fd = make("in");
    many_writes(in_fd, "0123456789", 100);
    handler_fd = make("handler");
    static char stack[16 << 10];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, NULL);
    alarms(jumps ? and_jump : with_io, which, number, !jumps);
    volatile long done = 0;
    char to[64];
    while (done < 60000) {
        if (jumps && sigsetjmp(back, 1))
            continue;
        unmasked = 1;
        int wrong = pread(in_fd, to, 10, 10 * (done % 90)) != 10 || to[0] != '0';
        unmasked = 0;
        must(!wrong, "pread");
        ++done;
    }
    stop_alarms(which);
    struct stat facts;
    fstat(handler_fd, &facts);
    /* How often differs from run to run; that nothing is lost does not. */
    must(facts.st_size == handled, "bytes of the handler");
    must(truncate("handler", 0) == 0, "truncate");
    printf("all is there\n");
}

static void *little(void *argument) {
    char name[16], to[10];
    snprintf(name, sizeof name, "t%ld", (long)argument % 10);
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    must(fd >= 0, "open in a thread");
    must(pwrite(fd, "thread", 6, 0) == 6 && pread(fd, to, 6, 0) == 6, "I/O in a thread");
    struct stat facts;
    must(stat(name, &facts) == 0, "stat in a thread");
    close(fd);
    return NULL;
}

static int lines_of_maps(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    int lines = 0;
    for (int letter; (letter = getc(maps)) != EOF;)
        lines += letter == '\n';
    fclose(maps);
    return lines;
}

static void threads(void) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 32 << 10);
    pthread_t all[50];
    for (long n = 0; n < 50; ++n)
        must(pthread_create(&all[n], &small, little, (void *)n) == 0, "pthread_create");
    for (int n = 0; n < 50; ++n)
        pthread_join(all[n], NULL);
    int before = lines_of_maps();
    for (long n = 0; n < 3000; ++n) {
        pthread_t one;
        must(pthread_create(&one, &small, little, (void *)n) == 0, "pthread_create");
        pthread_join(one, NULL);
    }
    printf("maps kept: %s\n", lines_of_maps() - before < 20 ? "few" : "many");
}

static int cleaned;

static void clean(void *argument) {
    (void)argument;
    cleaned = 1;
}

static void *waits(void *argument) {
    char to[1];
    pthread_cleanup_push(clean, NULL);
    (void)!read(*(int *)argument, to, 1);
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancelled(void) {
    int ends[2];
    must(pipe(ends) == 0, "pipe");
    pthread_t one;
    pthread_create(&one, NULL, waits, &ends[0]);
    usleep(20000);
    pthread_cancel(one);
    void *result;
    pthread_join(one, &result);
    printf("cancelled %d, cleaned %d\n", result == PTHREAD_CANCELED, cleaned);
}

static void bad_pointers(void) {
    int fd = make("file"), other = make("other");
    many_writes(fd, "0123456789", 10);
    struct stat facts;
    char *volatile wild = (char *)16;
    printf("stat %d %d\n", stat(wild, &facts), errno);
    printf("open %d %d\n", open(wild, O_RDONLY), errno);
    printf("fstatat %d %d\n", fstatat(AT_FDCWD, wild, &facts, 0), errno);
    printf("unlink %d %d\n", unlink(wild), errno);
    printf("truncate %d %d\n", truncate(wild, 5), errno);
    printf("chdir %d %d\n", chdir(wild), errno);
    printf("read %zd %d\n", read(fd, wild, 5), errno);
    printf("readv %zd %d\n", readv(fd, (struct iovec *)wild, 2), errno);
    printf("writev %zd %d\n", writev(fd, (struct iovec *)wild, 2), errno);
    printf("preadv %zd %d\n", preadv(fd, (struct iovec *)wild, 2, 0), errno);
    printf("sendfile %zd %d\n", sendfile(other, fd, (off_t *)wild, 5), errno);
    printf("copy_file_range %zd %d\n", copy_file_range(fd, (off_t *)wild, other, NULL, 5, 0), errno);
    printf("splice %zd %d\n", splice(fd, (off_t *)wild, other, NULL, 5, 0), errno);
    printf("execve %d %d\n", execve(wild, environ, environ), errno);
    printf("read of none %zd %d\n", read(-1, wild, 5), errno);
    printf("close of none %d %d\n", close(-1), errno);
    printf("read of 70000 %zd %d\n", read(70000, wild, 5), errno);
    errno = 77;
    many_writes(fd, "x", MANY);
    printf("errno kept: %d\n", errno);
}

static void limits(void) {
    int fd = make("file");
    struct rlimit none = {3, 3}, short_files = {100000, 100000};
    must(setrlimit(RLIMIT_NOFILE, &none) == 0, "RLIMIT_NOFILE");
    many_writes(fd, "n", MANY);
    must(open("more", O_CREAT | O_RDWR, 0644) == -1 && errno == EMFILE, "EMFILE");
    signal(SIGXFSZ, SIG_IGN);
    must(setrlimit(RLIMIT_FSIZE, &short_files) == 0, "RLIMIT_FSIZE");
    many_writes(fd, "f", MANY);
    /* So little memory that no second segment fits, and the program still gets what it asks for. */
    struct rlimit memory = {0, 0};
    FILE *self = fopen("/proc/self/statm", "r");
    must(self == NULL && errno == EMFILE, "no descriptor is left");
    memory.rlim_cur = memory.rlim_max = 64 << 20;
    must(setrlimit(RLIMIT_AS, &memory) == 0, "RLIMIT_AS");
    many_writes(fd, "m", MANY);
    void *some = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(some != MAP_FAILED, "a megabyte");
    memory.rlim_cur = memory.rlim_max = 0;
    must(setrlimit(RLIMIT_AS, &memory) == 0, "RLIMIT_AS of 0");
    many_writes(fd, "0", 2 * MANY);
    say_size(fd, "file");
}

static void daemonise(void) {
    int ready[2];
    char where[4096], path[4200];
    must(pipe(ready) == 0 && getcwd(where, sizeof where) != NULL, "pipe");
    snprintf(path, sizeof path, "%s/log", where);
    fflush(stdout);
    if (fork() == 0) {
        setsid();
        if (fork() != 0)
            _exit(0);
        must(chdir("/") == 0, "chdir");
        dup2(ready[1], 9);
        for (int n = 0; n < 9; ++n)
            close(n);
        closefrom(10);
        open("/dev/null", O_RDWR);
        (void)!dup(0);
        (void)!dup(0);
        int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
        for (int n = 0; n < MANY; ++n)
            dprintf(log, "line %d\n", n);
        must(write(9, &log, sizeof log) == sizeof log, "say");
        _exit(0);
    }
    close(ready[1]);
    int log = -1;
    must(read(ready[0], &log, sizeof log) == sizeof log, "hear");
    printf("the log was descriptor %d\n", log);
    wait(NULL);
}

static void look_around(void) {
    int fd = make("file");
    many_writes(fd, "x", MANY);
    fflush(stdout);
    must(system("ls -lA . | grep -v total | cut -c1-10,40-; ls /proc/self/fd | wc -l; find . | sort") == 0, "system");
    char link[64], to[64];
    for (int n = 0; n < 2000; ++n) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", n);
        if (n > 2 && readlink(link, to, sizeof to) > 0)
            printf("%d is open\n", n);
    }
}

static void allow_little(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
    must(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0, "seccomp");
}

static void sandbox(int strict) {
    int fd = make("file");
    many_writes(fd, "before", 10);
    printf("in a sandbox\n");
    fflush(stdout);
    if (strict)
        must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) == 0, "PR_SET_SECCOMP");
    else
        allow_little();
    many_writes(fd, "after", MANY);
    if (strict)
        syscall(SYS_exit, 5);
    exit(5);
}

static void new_root(void) {
    must(mkdir("root", 0755) == 0 && chroot("root") == 0 && chdir("/") == 0, "chroot");
    int fd = make("inside");
    must(setgid(65534) == 0 && (chown(".", 65534, 65534), setuid(65534)) == 0, "setuid");
    many_writes(fd, "i", MANY);
    printf("gone: %d\n", access("/proc/self", F_OK));
    say_size(fd, "inside");
}

static void shared_memory_child(void) {
    /* Shares memory and not descriptors, runs beside its parent, with the parent's thread storage. */
    in_fd = make("file");
    many_writes(in_fd, "0123456789", 100);
    static char stack[64 << 10];
    int child = clone((int (*)(void *))(void *)with_io, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
    must(child > 0, "clone");
    waitpid(child, NULL, 0);
    char to[10];
    for (int n = 0; n < MANY; ++n)
        must(pread(in_fd, to, 10, 0) == 10, "pread");
    printf("both are done\n");
}

int main(int count, char **words) {
    const char *name = count > 1 ? words[1] : "";
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
#define IS(of) (strcmp(name, #of) == 0)
    if IS(dup2_everywhere) dup2_everywhere();
    else if IS(take_every_descriptor) take_every_descriptor();
    else if IS(close_all) close_all();
    else if IS(fork_raw) fork_raw();
    else if IS(vfork_and_spawn) vfork_and_spawn();
    else if IS(signals) signals(ITIMER_REAL, SIGALRM, 0);
    else if IS(signals_of_work) signals(ITIMER_PROF, SIGPROF, 0);
    else if IS(signals_that_jump) signals(ITIMER_REAL, SIGALRM, 1);
    else if IS(threads) threads();
    else if IS(cancelled) cancelled();
    else if IS(bad_pointers) bad_pointers();
    else if IS(limits) limits();
    else if IS(daemonise) daemonise();
    else if IS(look_around) look_around();
    else if IS(sandbox) sandbox(0);
    else if IS(strict_sandbox) sandbox(1);
    else if IS(new_root) new_root();
    else if IS(shared_memory_child) shared_memory_child();
    else return 98;
    return 0;
}
