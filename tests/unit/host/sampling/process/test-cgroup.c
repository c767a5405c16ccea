/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "host/sampling/process/cgroup.h"

#define ID "5f3a8f0c1be64d7292a10b6cf7a8e90d3c4b5a69788796a5b4c3d2e1f0a1b2c3"
#define ID2 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static CgroupPart part(const char *text) {
        return (CgroupPart){ text, strlen(text) };
}

static bool is(CgroupPart found, const char *expected) {
        return found.size == strlen(expected) && !memcmp(found.text, expected, found.size);
}

typedef struct Case {
        const char *path, *container, *unit;
} Case;

/* As each runtime names its groups, with either driver. */
static const Case cases[] = {
        { "/docker/" ID, ID, "" },
        { "/docker/" ID "/init.scope", ID, "init.scope" },
        { "/system.slice/docker-" ID ".scope", ID, "docker-" ID ".scope" },
        { "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID ".scope", ID,
          "docker-" ID ".scope" },
        { "/kubepods/burstable/pod0f4c1a9e-7f2d-4a1b-9c3e-5d6f7a8b9c0d/" ID, ID, "" },
        { "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0f4c1a9e_7f2d_4a1b_9c3e_5d6f7a8b9c0d.slice/"
          "cri-containerd-" ID ".scope",
          ID, "cri-containerd-" ID ".scope" },
        { "/system.slice/containerd.service/kubepods-burstable-pod0f4c1a9e_7f2d.slice:cri-containerd:" ID, ID,
          "containerd.service" },
        { "/kubepods.slice/kubepods-pod0f4c1a9e_7f2d.slice/crio-" ID ".scope/container", ID,
          "crio-" ID ".scope" },
        { "/kubepods.slice/kubepods-pod0f4c1a9e_7f2d.slice/crio-conmon-" ID ".scope", "",
          "crio-conmon-" ID ".scope" },
        { "/machine.slice/libpod-" ID ".scope", ID, "libpod-" ID ".scope" },
        { "/machine.slice/libpod-" ID ".scope/container", ID, "libpod-" ID ".scope" },
        { "/machine.slice/libpod-conmon-" ID ".scope", "", "libpod-conmon-" ID ".scope" },
        { "/user.slice/user-1000.slice/user@1000.service/app.slice/web.service/libpod-payload-" ID, ID,
          "web.service" },
        { "/user.slice/user-1000.slice/user@1000.service/user.slice/nerdctl-" ID ".scope", ID,
          "nerdctl-" ID ".scope" },
        { "/ecs/0123456789abcdef0123456789abcdef/" ID, ID, "" },
        { "/ecs/0123456789abcdef0123456789abcdef/0123456789abcdef0123456789abcdef-1234567890",
          "0123456789abcdef0123456789abcdef-1234567890", "" },
        { "/machine.slice/systemd-nspawn@web1.service/payload/system.slice/nginx.service", "web1",
          "nginx.service" },
        { "/machine.slice/systemd-nspawn@web1.service/supervisor", "", "systemd-nspawn@web1.service" },
        { "/machine.slice/machine-web1.scope/payload", "web1", "machine-web1.scope" },
        { "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope", "", "machine-qemu\\x2d1\\x2dvm.scope" },
        { "/lxc/web2/init.scope", "web2", "init.scope" },
        { "/lxc.payload.web2/system.slice/cron.service", "web2", "cron.service" },
        { "/lxc.monitor.web2", "", "" },
        { "/docker/" ID2 "/docker/" ID, ID, "" },
        { "/../cri-containerd-" ID ".scope", ID, "cri-containerd-" ID ".scope" },
        { "/system.slice/nginx.service", "", "nginx.service" },
        { "/user.slice/user-1000.slice/session-2.scope", "", "session-2.scope" },
        { "/system.slice/" ID "0", "", "" },
        { "/system.slice/5F3A" ID, "", "" },
        { "/", "", "" },
        { "", "", "" },
};

Test(cgroup, knows_the_container_and_unit_of_each_runtime) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                CgroupPart container = cgroup_container(part(cases[i].path)),
                           unit = cgroup_unit(part(cases[i].path));

                cr_expect(is(container, cases[i].container), "%s: container %.*s", cases[i].path,
                          (int)container.size, container.text);
                cr_expect(is(unit, cases[i].unit), "%s: unit %.*s", cases[i].path, (int)unit.size, unit.text);
        }
}

static void check(const char *text, const char *path, const char *container) {
        Cgroup cgroup;

        cgroup_parse(text, strlen(text), &cgroup);
        cr_expect(is(cgroup.path, path), "%s: path %.*s", text, (int)cgroup.path.size, cgroup.path.text);
        cr_expect(is(cgroup.container, container), "%s: container %.*s", text, (int)cgroup.container.size,
                  cgroup.container.text);
}

Test(cgroup, takes_the_line_that_tells_most) {
        check("0::/system.slice/nginx.service\n", "/system.slice/nginx.service", "");
        check("12:memory:/docker/" ID "\n1:name=systemd:/docker/" ID
              "\n0::/system.slice/containerd.service\n",
              "/docker/" ID, ID);
        check("2:cpu,cpuacct:/\n1:name=systemd:/system.slice/cron.service\n0::/\n",
              "/system.slice/cron.service", "");
        check("3:memory:/batch\n1:name=systemd:/\n0::/\n", "/batch", "");
        check("2:cpu:/\n0::/\n", "/", "");
        check("0::/a:b/c\n", "/a:b/c", "");
        check("0::/gone.service (deleted)\n", "/gone.service", "");
}

Test(cgroup, finds_the_pod_that_kubernetes_made) {
        static const char uid[] = "0f4c1a9e-7f2d-4a1b-9c3e-5d6f7a8b9c0d", slice[] = "0f4c1a9e_7f2d_4a1b_9c3e_5d6f7a8b9c0d";

        cr_expect(is(cgroup_pod(part("/kubepods/burstable/pod0f4c1a9e-7f2d-4a1b-9c3e-5d6f7a8b9c0d/" ID)), uid));
        cr_expect(is(cgroup_pod(part("/kubepods/pod0f4c1a9e-7f2d-4a1b-9c3e-5d6f7a8b9c0d")), uid));
        cr_expect(is(cgroup_pod(part("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod"
                                     "0f4c1a9e_7f2d_4a1b_9c3e_5d6f7a8b9c0d.slice/cri-containerd-" ID ".scope")),
                     slice));
        cr_expect(is(cgroup_pod(part("/system.slice/containerd.service/kubepods-burstable-pod"
                                     "0f4c1a9e_7f2d_4a1b_9c3e_5d6f7a8b9c0d.slice:cri-containerd:" ID)),
                     slice));
        cr_expect(is(cgroup_pod(part("/kubepods/burstable/pod00112233445566778899aabbccddeeff/" ID)),
                     "00112233445566778899aabbccddeeff"),
                  "a static pod");
        cr_expect(is(cgroup_pod(part("/kubepods/pod0f4c1a9e-7f2d-4a1b-9c3e-5d6f7a8b9c0d/" ID
                                     "/pod11111111-2222-3333-4444-555555555555")),
                     uid),
                  "a group that the container made is no word about its pod");
        cr_expect(is(cgroup_pod(part("/docker/" ID)), ""));
        cr_expect(is(cgroup_pod(part("/pod0f4c1a9e-7f2d-4a1b-9c3e-5d6f7a8b9c0d")), ""));
        cr_expect(is(cgroup_pod(part("/kubepods/pod0f4c1a9e-7f2d-4a1b-9c3e-5d6f7a8b9c0/x")), ""));
        cr_expect(is(cgroup_pod(part("/kubepods/pod0f4c1a9e-7f2d-4a1b-9c3e")), ""));
        cr_expect(is(cgroup_pod(part("/kubepods/tripod")), ""));
}

Test(cgroup, a_share_is_of_the_outermost_group_that_none_of_its_processes_made) {
        static const char *const paths[][2] = {
                { "/system.slice/nginx.service", "/system.slice/nginx.service" },
                { "/system.slice/nginx.service/worker/1", "/system.slice/nginx.service" },
                { "/user.slice/user-1000.slice/user@1000.service/app.slice/web.service", "/user.slice/user-1000.slice" },
                { "/user.slice/user-1000.slice/session-2.scope", "/user.slice/user-1000.slice" },
                { "/docker/" ID "/init.scope", "/docker/" ID },
                { "/docker/" ID "/docker/" ID2, "/docker/" ID },
                { "/system.slice/docker-" ID ".scope/x", "/system.slice/docker-" ID ".scope" },
                { "/kubepods/burstable/pod0f4c1a9e-7f2d-4a1b-9c3e-5d6f7a8b9c0d/" ID,
                  "/kubepods/burstable/pod0f4c1a9e-7f2d-4a1b-9c3e-5d6f7a8b9c0d" },
                { "/kubepods.slice/kubepods-pod0f4c1a9e_7f2d_4a1b_9c3e_5d6f7a8b9c0d.slice/crio-" ID ".scope/x",
                  "/kubepods.slice/kubepods-pod0f4c1a9e_7f2d_4a1b_9c3e_5d6f7a8b9c0d.slice" },
                { "/machine.slice/systemd-nspawn@web1.service/payload/system.slice/nginx.service",
                  "/machine.slice/systemd-nspawn@web1.service" },
                { "/batch/job-17", "/batch/job-17" },
                { "/", "/" },
        };

        for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++)
                cr_expect(is(cgroup_share(part(paths[i][0])), paths[i][1]), "%s", paths[i][0]);
}

Test(cgroup, leaves_out_lines_that_no_kernel_prints) {
        check("", "", "");
        check("0:\n::\n0::\n0::relative\n\n", "", "");
        check("nonsense\n0::/x", "/x", "");
}

Test(cgroup, matches_a_group_and_what_is_below_it) {
        CgroupPart path = part("/system.slice/nginx.service/worker");

        cr_expect(cgroup_path_matches(path, "/system.slice/nginx.service/worker"));
        cr_expect(cgroup_path_matches(path, "/system.slice/nginx.service"));
        cr_expect(cgroup_path_matches(path, "system.slice/nginx.service/"));
        cr_expect(cgroup_path_matches(path, "/sys/fs/cgroup/system.slice"));
        cr_expect(cgroup_path_matches(path, "/sys/fs/cgroup/unified/system.slice/nginx.service"));
        cr_expect(cgroup_path_matches(path, "/system.slice/ngin*"));
        cr_expect(cgroup_path_matches(path, "*nginx*"));
        cr_expect(cgroup_path_matches(path, "/"));
        cr_expect(cgroup_path_matches(part("/"), "/"));
        cr_expect_not(cgroup_path_matches(path, "/system.slice/nginx"));
        cr_expect_not(cgroup_path_matches(path, "/nginx.service"));
        cr_expect_not(cgroup_path_matches(path, "/system.slice/nginx.service/worker/x"));
        cr_expect_not(cgroup_path_matches(part("/"), "/system.slice"));
}

Test(cgroup, matches_units_as_systemctl_names_them) {
        CgroupPart path = part(
                "/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service/worker");

        cr_expect(cgroup_unit_matches(path, "nginx.service"));
        cr_expect(cgroup_unit_matches(path, "nginx"));
        cr_expect(cgroup_unit_matches(path, "ng*"));
        cr_expect(cgroup_unit_matches(path, "user@1000.service"));
        cr_expect(cgroup_unit_matches(path, "user-1000.slice"));
        cr_expect_not(cgroup_unit_matches(path, "ngin"));
        cr_expect_not(cgroup_unit_matches(path, "worker"));
        cr_expect_not(cgroup_unit_matches(path, "app"));
        cr_expect_not(cgroup_unit_matches(part("/"), "*"));
}

Test(cgroup, matches_containers_by_start_glob_and_unescaped_name) {
        cr_expect(cgroup_container_matches(part(ID), "5f3a8f0c1be6"));
        cr_expect(cgroup_container_matches(part(ID), "*"));
        cr_expect_not(cgroup_container_matches(part(ID), "3a8f"));
        cr_expect_not(cgroup_container_matches(part(""), "*"));
        cr_expect(cgroup_container_matches(part("my\\x2dweb"), "my-web"));
}

Test(cgroup, resolves_escapes_only_where_they_fit) {
        char to[8] = "before";

        cr_expect_not(cgroup_unescape(part("12345678"), to, sizeof(to)));
        cr_expect_str_eq(to, "before");
        cr_expect(cgroup_unescape(part("a\\x2db"), to, sizeof(to)));
        cr_expect_str_eq(to, "a-b");
        cr_expect(cgroup_unescape(part("\\x\\x2"), to, sizeof(to)));
        cr_expect_str_eq(to, "\\x\\x2");
}
