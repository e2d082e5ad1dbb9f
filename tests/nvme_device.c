/* Preloaded: every character device answers the admin commands of an NVMe drive. NVME_IDENTIFY names
 * a file with the answer to Identify Controller, NVME_STATE is the present power state. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/ioctl.h>
#include <linux/nvme_ioctl.h>

enum { IDENTIFY = 0x06, GET_FEATURES = 0x0a, POWER_MANAGEMENT = 0x02, INVALID_OPCODE = 1 };

static int answer(struct nvme_passthru_cmd *command)
{
    int file;

    if (command->opcode == GET_FEATURES && (command->cdw10 & 0xff) == POWER_MANAGEMENT) {
        command->result = (unsigned)atoi(getenv("NVME_STATE"));
        return 0;
    }
    if (command->opcode != IDENTIFY || command->cdw10 != 1 || command->data_len != 4096)
        return INVALID_OPCODE;
    file = open(getenv("NVME_IDENTIFY"), O_RDONLY);
    if (file < 0 || read(file, (void *)(unsigned long)command->addr, 4096) != 4096)
        abort();
    close(file);
    return 0;
}

int ioctl(int file, unsigned long request, ...)
{
    va_list rest;
    void *argument;

    va_start(rest, request);
    argument = va_arg(rest, void *);
    va_end(rest);
    if ((request & 0xffffffff) == NVME_IOCTL_ADMIN_CMD)
        return answer(argument);
    return (int)syscall(SYS_ioctl, file, request, argument);
}
