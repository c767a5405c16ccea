/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Turns
 *
 * Hosts stand on a circle of 10,000 places, each where the hash of its machine id says. At each turn all go
 * on by as many places as the share has; who stands in the first part of the circle samples. With 25 % (2,500
 * places) a host at 600 samples in the turns 0, 4, 8 …, and one at 7,000 in the turns 2, 6, 10 …:
 *
 *     turn     600        7,000
 *     0        600  *     7,000
 *     1      3,100        9,500
 *     2      5,600        2,000  *
 *     3      8,100        4,500
 *     4        600  *     7,000
 *
 * So each host samples in exactly this part of its turns, and about this part of the hosts at each time. A
 * sum over the fleet is divided by the share; shares of time need no correction.
 */

#include "host/service/config/host-share.h"

#include <stdlib.h>
#include <string.h>
#include <systemd/sd-id128.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"

/* Another application's number of the same machine is another one. */
#define APPLICATION_ID SD_ID128_MAKE(3f,c4,0b,7d,19,be,4a,62,8d,55,e1,90,27,6c,aa,04)

static int parse_turn(const char *text, uint64_t *turnp) {
        static const struct {
                const char *unit;
                uint64_t ns;
        } units[] = { { "s", NS_PER_SEC }, { "m", 60 * NS_PER_SEC }, { "min", 60 * NS_PER_SEC },
                      { "h", 3600 * NS_PER_SEC }, { "d", 86400 * NS_PER_SEC } };
        char *end;
        unsigned long n = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;

        if (!n || n > 1000000)
                return 1;
        for (size_t i = 0; i < ARRAY_SIZE(units); i++)
                if (!strcmp(end, units[i].unit)) {
                        *turnp = n * units[i].ns;
                        return 0;
                }
        return 1;
}

int host_share_parse(const char *text, HostShare *sharep) {
        HostShare share = { 0 };
        double percent;
        char *end;

        if (!*text) {
                *sharep = share;
                return 0;
        }
        if (*text == '.' || text[strspn(text, "0123456789.")] != '%')   /* strtod() takes more */
                return 1;
        percent = strtod(text, &end);
        if (!(percent >= 0.01 && percent <= 100) || strncmp(end, "%/", 2) ||
            parse_turn(end + 2, &share.turn_ns))
                return 1;
        share.share = (uint32_t)(percent * HOST_SHARE_WHOLE / 100 + 0.5);
        *sharep = share;
        return 0;
}

bool host_share_has_turn(const HostShare *share, uint64_t host, uint64_t now_ns) {
        uint64_t turn, place;

        if (!share->share)
                return true;
        turn = now_ns / share->turn_ns % HOST_SHARE_WHOLE;
        place = (host % HOST_SHARE_WHOLE + turn * share->share) % HOST_SHARE_WHOLE;
        return place < share->share;
}

uint64_t host_share_number(void) {
        char name[256] = "";
        uint64_t number = 14695981039346656037U;
        sd_id128_t id;

        if (sd_id128_get_machine_app_specific(APPLICATION_ID, &id) >= 0)
                return id.qwords[0];
        /* an image without an id: FNV-1a of its name */
        gethostname(name, sizeof(name) - 1);
        for (const char *c = name; *c; c++)
                number = (number ^ (unsigned char)*c) * 1099511628211U;
        return number;
}
