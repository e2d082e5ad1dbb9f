/* A module of OpenIPMI's ipmi_sim: DCMI's Get Power Reading (DCMI 1.5, 6.6.1), which ipmi_sim lacks.
 * Its option names a file: watts, and 0 if power is not measured. */
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include <OpenIPMI/serv.h>
#include <OpenIPMI/mcserv.h>

enum { DCMI = 0xdc, GET_POWER_READING = 0x02, INVALID_COMMAND = 0xc1 };

static char *watts_file;

static void answer(lmc_data_t *mc, msg_t *msg, unsigned char *data, unsigned int *length,
                   void *unused)
{
    unsigned int watts = 0, active = 1, at;
    FILE *file;

    (void)mc, (void)unused;
    if (msg->cmd != GET_POWER_READING) {
        data[0] = INVALID_COMMAND;
        *length = 1;
        return;
    }
    file = fopen(watts_file, "r");
    if (file) {
        if (fscanf(file, "%u %u", &watts, &active) < 1)
            watts = 0;
        fclose(file);
    }
    memset(data, 0, 19);
    data[1] = DCMI;
    for (at = 2; at < 10; at += 2) { /* present, least, most, mean */
        data[at] = watts & 0xff;
        data[at + 1] = watts >> 8;
    }
    data[14] = 1000 & 0xff; /* period in ms */
    data[15] = 1000 >> 8;
    data[18] = active ? 0x40 : 0;
    *length = 19;
}

int ipmi_sim_module_print_version(sys_data_t *sys, char *option)
{
    (void)sys, (void)option;
    return 0;
}

int ipmi_sim_module_init(sys_data_t *sys, const char *option)
{
    (void)sys;
    watts_file = strdup(option);
    ipmi_emu_register_group_extension_handler(DCMI, answer, NULL);
    return 0;
}
