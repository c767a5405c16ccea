/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Counters
 *
 * Every counter of spanprof, kernel half and daemon, in one list. Each line is
 *
 *     X(NAME, "metric", "label", "what it counts")
 *
 * where "metric" is the name without the `spanprof_` prefix and "label" is the
 * text between the braces of the Prometheus form ("" = none). "What it counts"
 * is the object of a sentence: docs/METRICS.md, which tests/check-metrics.py
 * writes, puts "Counts" before it ("Adds up seconds of", if it has ns). The kernel half
 * owns the first list (one per-CPU array, indexed by enum counter); the daemon
 * owns the second. Invariant 1 is written in these names:
 *
 *     TICKS = SAMPLES_DELIVERED + the sum of every LOST_* + what is still in flight
 *
 * where in flight is zero once the daemon has stopped; with a spool it is SPOOL_WRITTEN - SPOOL_TAKEN then,
 * which is negative for a daemon that sent what an earlier one had left.
 */

#define COUNTERS_KERNEL(X) \
        X(TICKS, "ticks_total", "", "entries of the sampler on a target") \
        X(SAMPLER_ENTRIES, "sampler_entries_total", "", \
                "entries of the sampler, idle tasks and non-targets included") \
        X(LOST_RING_FULL, "lost_total", "reason=\"ring_full\"", "samples that found the ring to the daemon full") \
        X(LOST_KERNEL_INTERNAL, "lost_total", "reason=\"kernel_internal\"", \
          "samples for which the kernel half lacked a map that must exist") \
        X(NOTICES, "notices_total", "", "exec, exit and changed-mappings notices posted") \
        X(UNDECIDED_LOST, "undecided_lost_total", "", \
          "samples among lost_total of processes that were not judged yet: of targets or of strangers") \
        X(LOST_NOTICES, "notices_lost_total", "", "notices that found their ring buffer full") \
        X(WAKE_UPS, "wake_ups_total", "", "times that a sample or a notice woke the sleeping daemon") \
        X(CALLS, "calls_total", "event=\"made\"", \
                "calls of the daemon by samples outside all known mappings of their target") \
        X(RETURN_PROBES, "return_probes_total", "result=\"found\"", \
          "frames at a return probe of others (bpftrace …), or in a step over a probe, with their true address") \
        X(RETURN_PROBES_LOST, "return_probes_total", "result=\"lost\"", \
          "the same of which the kernel tells no address: their stacks end there, no_mapping") \
        X(STACK_COPIES, "stack_copies_total", "result=\"sent\"", \
          "stacks copied for the daemon's own walk, since rows were not in force yet") \
        X(STACK_COPIES_BUDGET, "stack_copies_total", "result=\"budget\"", \
          "stacks not copied, because the budget of the second and CPU was spent: they end early") \
        X(STACK_COPIES_FULL, "stack_copies_total", "result=\"ring_full\"", \
          "stacks not copied, because their ring was full: they end early") \
        X(CALLS_AT_ONCE, "calls_total", "event=\"at_once\"", \
                "calls of the daemon by an exec or a first sample of a target") \
        X(STARTS, "starts_total", "event=\"sent\"", \
          "samples that took along what a new process says of itself, as it may be gone when they are read") \
        X(STARTS_UNREAD, "starts_total", "event=\"unread\"", \
          "samples of new processes without that: too long, not in memory, or no room: they call the daemon") \
        X(STARTS_WAIT, "starts_total", "event=\"waits\"", \
          "samples of new processes that the daemon was not called for, since nothing of them is new") \
        X(FORKS_OVER_CAP, "forks_over_cap_total", "", \
          "forked children of targets that the table had no room for: no rows until the daemon knows them") \
        X(RING_THREADS_OVER_CAP, "ring_threads_over_cap_total", "", \
          "threads of processes with a ring over the process' share of the table: its slots count as ambiguous since") \
        X(CONTEXT_ATTRIBUTES_UNREADABLE, "context_attributes_total", "result=\"unreadable\"", \
          "attributes of a thread context that are too long or unreadable: left out, the span stays") \
        X(HOTSPOT_UNREADABLE, "hotspot_ends_total", "reason=\"unreadable\"", \
          "stacks that ended since memory of the virtual machine could not be read") \
        X(HOTSPOT_NO_CODE, "hotspot_ends_total", "reason=\"no_code\"", \
          "stacks that ended in a part of the code cache that holds no code") \
        X(HOTSPOT_NO_FRAME, "hotspot_ends_total", "reason=\"no_frame\"", \
          "stacks that ended in interpreter or stub without a frame that could be proved") \
        X(HOTSPOT_NO_RETURN, "hotspot_ends_total", "reason=\"no_return\"", \
          "stacks that ended since the return address was behind no call of Java code") \
        X(HOTSPOT_CHANGING, "hotspot_ends_total", "reason=\"changing\"", \
          "stacks that ended in compiled code that was building or leaving its frame in an unknown way") \
        X(HOTSPOT_HEAP_READ, "hotspot_heaps_total", "result=\"read\"", \
          "stacks of virtual threads with frames in the heap, which were read") \
        X(HOTSPOT_HEAP_SKIPPED, "hotspot_heaps_total", "result=\"skipped\"", \
          "stacks of virtual threads with frames in the heap, for which one frame stands") \
        X(GO_READ, "go_labels_total", "result=\"read\"", "samples of goroutines whose labels were read, if any") \
        X(GO_NONE, "go_labels_total", "result=\"none\"", \
          "samples of Go programs in which the thread ran no goroutine") \
        X(GO_UNREADABLE, "go_labels_total", "result=\"unreadable\"", \
          "samples of Go programs in which no goroutine could be proved, or its labels not be read") \
        X(GO_LEFT_OUT, "go_labels_left_out_total", "", \
          "labels that are too long, too many, or unreadable: left out, the others stay") \
        X(PYTHON_WHOLE, "python_joins_total", "result=\"whole\"", \
          "stacks with all frames of Python, PHP, Ruby or Erlang in their places between native ones") \
        X(PYTHON_PARTIAL, "python_joins_total", "result=\"partial\"", \
          "stacks with frames of Python, PHP, Ruby or Erlang whose places were not all found: some are missing, or left out") \
        X(PYTHON_CUT, "python_joins_total", "result=\"cut\"", \
          "stacks with more frames of Python, PHP, Ruby or Erlang than are kept, or not read to their end") \
        X(BEAM_TASKS_TOLD, "erlang_processes_total", "result=\"named\"", \
          "samples with a stack of Erlang whose process has its name with it") \
        X(BEAM_TASKS_LATE, "erlang_processes_total", "result=\"late\"", \
          "the same whose process could not be named in time") \
        X(BEAM_TASKS_UNKNOWN, "erlang_processes_total", "result=\"unknown\"", \
          "the same whose process has neither a name nor a function that it began with: it ends, for one") \
        X(SDK_SPANS_READ, "sdk_spans_total", "result=\"read\"", \
          "samples and waits with a span out of the memory of OpenTelemetry's SDK for Python or Node.js") \
        X(SDK_SPANS_NONE, "sdk_spans_total", "result=\"none\"", \
          "the same of threads of Python and Node.js that work for no span of the SDK, or of no SDK") \
        X(SDK_SPANS_REMOTE, "sdk_spans_total", "result=\"remote\"", \
          "the same of threads whose current span is another process'") \
        X(SDK_SPANS_UNLEARNED, "sdk_spans_total", "result=\"unlearned\"", \
          "the same of threads of Python that have context variables, where no SDK was found, or not yet") \
        X(SDK_SPANS_TYPE, "sdk_spans_total", "result=\"type\"", \
          "looks for the SDK's span that met an object of another type, or another layout: they give no span") \
        X(SDK_SPANS_FAULT, "sdk_spans_total", "result=\"fault\"", \
          "looks for the SDK's span that met memory which could not be read: they give no span") \
        X(SDK_SPANS_FAR, "sdk_spans_total", "result=\"far\"", \
          "looks for the SDK's span that were given up: the way is too long, or a context has too many keys") \
        X(SDK_SPANS_INTERPRETERS, "sdk_spans_total", "result=\"interpreters\"", \
          "samples and waits of threads that are in several interpreters of Python, of which none counts") \
        X(PYTHON_SPANS_UNNAMED, "python_spans_unnamed_total", "", \
          "samples with a span of OpenTelemetry's SDK for Python, of whose entry span no name is known: no sample has met it, or one between") \
        X(PYTHON_LOCK_WAITS, "python_lock_waits_total", "", \
          "waits of a thread for the lock of an interpreter of Python (the GIL), with --off-cpu") \
        X(FAULTS, "page_faults_total", "result=\"sampled\"", \
          "page faults that samples stand for, with --page-faults, those of not_target among them") \
        X(FAULTS_BUDGET, "page_faults_total", "result=\"budget\"", \
          "page faults of the whole machine for which no sample stands: too many samples came in the second on that CPU") \
        X(FAULTS_UNTAKEN, "page_faults_total", "result=\"kernel_internal\"", \
          "page faults for which no sample stands, as the kernel half lacked a program that must exist") \
        X(FAULT_SAMPLES, "page_fault_samples_total", "event=\"taken\"", \
          "samples of page faults, with --page-faults, those of not_target among them") \
        X(FAULT_SAMPLES_RING_FULL, "page_fault_samples_total", "event=\"ring_full\"", \
          "samples of page faults that found the ring to the daemon full: they are lost") \
        X(FAULT_SAMPLES_UNKNOWN, "page_fault_samples_total", "event=\"unknown\"", \
          "samples of page faults whose kind of memory the kernel could not tell at that moment: they are kept") \
        X(FINE_TICKS, "recorder_ticks_total", "event=\"taken\"", \
          "entries of the sampler on a target for the flight recorder alone, with --recorder: not in ticks_total") \
        X(FINE_RING_FULL, "recorder_ticks_total", "event=\"ring_full\"", \
          "the same that found the ring to the daemon half full: they leave the rest to other samples") \
        X(BOOST_TICKS, "boost_ticks_total", "", \
          "entries of the sampler on a process of `spanprof boost`: they are in ticks_total, too") \
        X(WAITS, "waits_total", "event=\"begun\"", "times that a thread of a target left its CPU, with --off-cpu") \
        X(WAITS_WALKED, "waits_total", "event=\"walked\"", "waits whose stack was drawn and walked") \
        X(WAITS_WALKED_LATE, "waits_total", "event=\"walked_late\"", \
          "waits that were not drawn, and lasted: the daemon has walked their stack meanwhile") \
        X(WAITS_LONG_BARE, "waits_total", "event=\"long_bare\"", \
          "waits as long as off-cpu-long-wait that were counted without their stack") \
        X(WAITS_RING_FULL, "waits_total", "event=\"ring_full\"", \
          "waits counted without their stack, since the ring was full") \
        X(WAITS_THINNED, "waits_total", "event=\"thinned\"", \
          "waits counted without their stack, since their process has filled most of a ring that is half full") \
        X(WAITS_UNWALKED, "waits_total", "event=\"unwalked\"", \
          "waits that were not drawn for a walk, since there were too many switches: above off-cpu-max-switches") \
        X(WAITS_SPANLESS, "waits_total", "event=\"spanless\"", \
          "waits counted without span, kind of file and waker, since there were too many switches") \
        X(WAITS_STACKS_OVER_CAP, "waits_total", "event=\"stacks_over_cap\"", \
          "waits counted without their stack, since too many threads wait with one") \
        X(WAITS_FOLDED, "waits_total", "event=\"folded\"", \
          "waits counted by their thread alone, since the table of sums was full") \
        X(WAITS_LOST, "waits_total", "event=\"lost\"", "waits that are counted nowhere: no sum had room") \
        X(WAITS_UNSEEN, "waits_total", "event=\"unseen\"", \
          "waits whose end the kernel did not tell: counted up to their wake-up, if that was told") \
        X(WAITS_THREADS_OVER_CAP, "waits_total", "event=\"threads_over_cap\"", \
          "waits not counted, since too many threads are followed") \
        X(CRASHES, "crashes_total", "event=\"seen\"", "targets that a signal has ended, but for SIGTERM, SIGINT and SIGHUP") \
        X(CRASHES_OVER_BUDGET, "crashes_total", "event=\"over_budget\"", \
          "crashes without a stack, because a CPU had more than 16 of them in a second") \
        X(CRASHES_RING_FULL, "crashes_total", "event=\"ring_full\"", \
          "crashes without a stack, because the ring to the daemon was full") \
        X(ALLOCATIONS, "allocations_total", "result=\"taken\"", \
          "allocations that probes have told, in targets, with --allocations: samples of them") \
        X(ALLOCATIONS_BUDGET, "allocations_total", "result=\"budget\"", \
          "the same beyond 1,000 a second of a process, or 2,000 of a CPU, half of these of a control group: left out") \
        X(ALLOCATIONS_NESTED, "allocations_total", "result=\"nested\"", \
          "the same while another one was being taken on the CPU: left out") \
        X(ALLOCATIONS_UNREADABLE, "allocations_total", "result=\"unreadable\"", \
          "the same whose arguments could not be read, or cannot be any: left out") \
        X(ALLOCATIONS_RING_FULL, "allocations_total", "result=\"ring_full\"", \
          "the same that found the ring to the daemon full: lost") \
        X(FREES, "frees_total", "result=\"taken\"", \
          "frees of told allocations that probes have told, in targets, with --allocations") \
        X(FREES_BUDGET, "frees_total", "result=\"budget\"", \
          "the same beyond 4,000 a second of a process, or 8,000 of a CPU, half of these of a control group: lost, and so is what the process had alive") \
        X(FREES_UNREADABLE, "frees_total", "result=\"unreadable\"", \
          "the same whose argument could not be read: as above") \
        X(FREES_RING_FULL, "frees_total", "result=\"ring_full\"", \
          "the same that found the ring to the daemon full: as above") \
        X(FREES_LOSERS_FULL, "frees_total", "result=\"losers_full\"", \
          "lost frees that could not be counted by process, since 8,192 others have lost some: nothing that was alive is believed") \
        X(WAKERS_UNKNOWN, "wait_wakers_total", "kind=\"unknown\"", \
          "blocked waits whose waker is not told: it was there before the wait began") \
        X(WAKERS_THREAD, "wait_wakers_total", "kind=\"thread\"", "blocked waits that a target's thread has ended") \
        X(WAKERS_PROCESS, "wait_wakers_total", "kind=\"process\"", \
          "blocked waits that a process has ended which is no target") \
        X(WAKERS_KERNEL, "wait_wakers_total", "kind=\"kernel\"", \
          "blocked waits that a thread of the kernel has ended") \
        X(WAKERS_INTERRUPT, "wait_wakers_total", "kind=\"interrupt\"", \
          "blocked waits that an interrupt has ended: a timer, a device, a packet") \
        X(CUSTOM_LABELS_LEFT_OUT, "custom_labels_left_out_total", "", \
          "labels of custom_labels_current_set that are too long, too many, or unreadable: left out, the others stay") \
        X(WAKERS_WALKED, "wait_wakers_walked_total", "outcome=\"walked\"", \
          "wakers of waits with a stack whose own stack was walked") \
        X(WAKERS_OVER_CAP, "wait_wakers_walked_total", "outcome=\"over_cap\"", \
          "stacks of wakers left out, since too many threads wait with one") \
        X(RUNS_UNKNOWN, "thread_cpu_runs_unknown_total", "", \
          "stretches of CPU time whose begin was not seen: in no thread_cpu_seconds_total") \
        X(RUN_TICKS_OVER_CAP, "thread_cpu_ticks_over_cap_total", "", \
          "ticks that split no CPU time, since the thread had too many spans before it left its CPU") \
        X(OBI_READ, "obi_contexts_total", "result=\"read\"", "spans of threads that were read in OBI's map") \
        X(OBI_MISSED, "obi_contexts_total", "result=\"missed\"", \
          "looks into OBI's map that found no span of the thread: none is under way, or OBI does not follow it") \
        X(OBI_STALE, "obi_contexts_total", "result=\"stale\"", \
          "spans in OBI's map that are not believed: they were there before the thread, or before us, and have not changed")

#define COUNTERS_DAEMON(X) \
        X(EXPECTED_TICKS, "expected_ticks_total", "", \
                "ticks that the targets' CPU time by the kernel's books stands for; added up by windows, without " \
                "pauses") \
        X(SAMPLES_DELIVERED, "samples_delivered_total", "", "samples in requests that a receiver accepted") \
        X(DRAINS, "drains_total", "", "times that the daemon read the rings by its own clock") \
        X(CALLS_ANSWERED, "calls_total", "event=\"answered\"", \
                "looks at new mappings that a call brought about") \
        X(CALLS_MAPPED, "calls_total", "event=\"mapped\"", \
                "looks after an answer that found notices of new code") \
        X(CALLS_PUT_OFF, "calls_total", "event=\"put_off\"", \
                "calls at once that were answered later, since there were too many") \
        X(NOTICES_MALFORMED, "notices_malformed_total", "", "notices that failed a bound in decode") \
        X(LOST_MALFORMED, "lost_total", "reason=\"malformed\"", "records that failed a bound in decode") \
        X(LOST_NOT_TARGET, "lost_total", "reason=\"not_target\"", \
          "samples of undecided processes that the selectors then rejected") \
        X(LOST_WINDOW_FULL, "lost_total", "reason=\"window_full\"", \
          "samples without room in a window: a table was full, or three quarters full with more of theirs than was left") \
        X(LOST_EXPORT_QUEUE, "lost_total", "reason=\"export_queue\"", \
          "samples of the oldest batch, dropped because the export queue was full") \
        X(LOST_EXPORT_REFUSED, "lost_total", "reason=\"export_refused\"", \
          "samples that the receiver will never take: its status, certificate or protocol says so") \
        X(LOST_EXPORT_REJECTED, "lost_total", "reason=\"export_rejected\"", \
          "samples of profiles that a receiver rejected in a partial success") \
        X(LOST_EXPORT_AGE, "lost_total", "reason=\"export_age\"", \
                "samples of batches that were retried for longer than allowed") \
        X(LOST_EXPORT_TOO_OLD, "lost_total", "reason=\"too_old\"", \
          "samples of requests that the receiver refused for their age") \
        X(LOST_EXPORT_NOT_OTLP, "lost_total", "reason=\"not_otlp\"", \
          "samples of requests that something answered that is no receiver of OTLP") \
        X(LOST_ENCODE, "lost_total", "reason=\"encode\"", "samples that could not be put into a request") \
        X(LOST_SPOOL_FULL, "lost_total", "reason=\"spool_full\"", \
                "samples of the oldest batch, dropped because the spool was at a cap") \
        X(LOST_SPOOL_AGE, "lost_total", "reason=\"spool_age\"", "samples older than the spool keeps") \
        X(LOST_SPOOL_CORRUPT, "lost_total", "reason=\"spool_corrupt\"", \
                "samples in spooled files that could not be read back") \
        X(LOST_SPOOL_SCHEMA, "lost_total", "reason=\"spool_schema\"", \
                "samples spooled by a version with another schema") \
        X(LOST_STOP, "lost_total", "reason=\"stop\"", "samples not sent before stop-timeout ran out") \
        X(LOST_DEFERRED, "lost_total", "reason=\"deferred\"", \
          "samples whose process was forgotten while they waited for its unwind rows") \
        X(STARTS_USED, "starts_total", "event=\"used\"", \
          "processes that were gone, and are known by what their first sample took along") \
        X(STARTS_MISSED, "starts_total", "event=\"missed\"", \
          "processes that were gone and took nothing along: what they said of themselves is not known") \
        X(STARTS_LOST, "starts_total", "event=\"lost\"", \
          "what samples took along and was malformed, over a cap, or without its sample") \
        X(STACK_COPIES_OVER_CAP, "stack_copies_total", "result=\"over_cap\"", \
          "copies dropped because too many samples wait for unwind rows: their stacks end early") \
        X(STACK_COPIES_ORPHANS, "stack_copies_total", "result=\"orphan\"", \
          "copies whose sample found its ring full") \
        X(STACK_COPIES_MALFORMED, "stack_copies_total", "result=\"malformed\"", \
          "copies that failed a bound in decode") \
        X(STACK_WALKS, "stack_walks_total", "result=\"walked\"", \
          "copied stacks walked by the daemon") \
        X(STACK_WALKS_LATE, "stack_walks_total", "result=\"late\"", \
          "copied stacks whose rows or mappings did not come in time: they end early") \
        X(STACKS_COMPLETE, "stacks_total", "end=\"complete\"", "user stacks that reached their root") \
        X(STACKS_NO_USER, "stacks_total", "end=\"no_user\"", "samples without a user part") \
        X(STACKS_NO_MAPPING, "stacks_total", "end=\"no_mapping\"", "stacks whose walk left every mapping") \
        X(STACKS_NO_ROWS, "stacks_total", "end=\"no_rows\"", \
          "stacks in code without unwind rows and frame pointer") \
        X(STACKS_FAULT, "stacks_total", "end=\"fault\"", "stacks that could not be read") \
        X(STACKS_BAD_CFA, "stacks_total", "end=\"bad_cfa\"", \
          "stacks with a frame address that is unaligned or does not grow") \
        X(STACKS_UNSUPPORTED, "stacks_total", "end=\"unsupported\"", \
          "stacks with a rule that the walk does not know, or of 32-bit code") \
        X(STACKS_DEPTH, "stacks_total", "end=\"depth\"", "stacks deeper than the configured depth") \
        X(STACKS_FP_END, "stacks_total", "end=\"fp_end\"", \
          "stacks whose frame pointers ended, not provably at a root") \
        X(STACKS_STALE, "stacks_total", "end=\"stale\"", "stacks whose mappings changed under the walk") \
        X(STACKS_INTERNAL, "stacks_total", "end=\"internal\"", "stacks with inconsistent unwind tables") \
        X(STACKS_PENDING, "stacks_total", "end=\"pending\"", \
          "stacks whose walk came to code whose unwind rows were not in force in time") \
        X(STACKS_LONG, "stacks_total", "end=\"long\"", \
          "stacks walked by the daemon that are longer than what was copied of them") \
        X(STACKS_MALFORMED, "stacks_total", "end=\"malformed\"", \
          "stacks with a word that can be no address where a return address should be") \
        X(STACKS_RUNTIME, "stacks_total", "end=\"runtime\"", \
          "stacks that ended in code of a runtime, at a place that it does not describe") \
        X(STACKS_UNPROVED, "stacks_total", "end=\"unproved\"", \
          "stacks in code without unwind rows whose frame pointer may be a caller's") \
        X(CONTEXT_PRESENT, "contexts_total", "outcome=\"present\"", "samples with a span") \
        X(CONTEXT_NONE, "contexts_total", "outcome=\"none\"", "samples of threads without an active span") \
        X(CONTEXT_UNPUBLISHED, "contexts_total", "outcome=\"unpublished\"", \
                "samples of processes that publish no context") \
        X(CONTEXT_BUSY, "contexts_total", "outcome=\"busy\"", \
          "samples in the middle of a write of the context") \
        X(CONTEXT_AMBIGUOUS, "contexts_total", "outcome=\"ambiguous\"", \
          "samples whose slot two living threads share") \
        X(CONTEXT_STALE, "contexts_total", "outcome=\"stale\"", \
          "samples whose slot is older than its thread") \
        X(CONTEXT_UNREADABLE, "contexts_total", "outcome=\"unreadable\"", \
          "samples whose slot could not be read") \
        X(FRAMES_NATIVE, "frames_total", "kind=\"native\"", \
                "frames in a file, resolved to build id + address") \
        X(FRAMES_KERNEL, "frames_total", "kind=\"kernel\"", "kernel frames with a name") \
        X(FRAMES_VDSO, "frames_total", "kind=\"vdso\"", "frames in the vdso") \
        X(FRAMES_KERNEL_HIDDEN, "frames_total", "kind=\"kernel_hidden\"", \
          "kernel frames without a name: kallsyms shows no addresses, or nothing lies there") \
        X(FRAMES_ANONYMOUS, "frames_total", "kind=\"anonymous\"", \
          "frames in executable memory without a file") \
        X(FRAMES_UNREADABLE, "frames_total", "kind=\"unreadable\"", \
          "frames in a file that could not be read") \
        X(FRAMES_UNMAPPED, "frames_total", "kind=\"unmapped\"", "frames outside every known mapping") \
        X(FRAMES_RUNTIME, "frames_total", "kind=\"runtime\"", "frames that the walk over a runtime found") \
        X(RUNTIMES_ATTACHED, "runtimes_total", "result=\"attached\"", \
          "processes whose runtime is known and walked") \
        X(RUNTIMES_UNKNOWN, "runtimes_total", "result=\"unknown\"", \
          "processes whose runtime has a layout that is not known: walked natively") \
        X(RUNTIMES_NATIVE, "runtimes_total", "result=\"native\"", \
          "processes whose virtual machine is recognised and walked natively") \
        X(RUNTIMES_OVER_CAP, "runtimes_total", "result=\"over_cap\"", \
          "processes with a runtime for which there was no room in a table, or no time for their user") \
        X(RUNTIME_FRAMES_NAMED, "runtime_frames_total", "result=\"named\"", \
          "new frames of runtimes that were named") \
        X(RUNTIME_FRAMES_UNNAMED, "runtime_frames_total", "result=\"unnamed\"", \
          "frames of runtimes that refer to what is not there any more") \
        X(RUNTIME_FRAMES_UNLOADED, "runtime_frames_total", "result=\"unloaded\"", \
          "new interpreted frames whose class may have been unloaded before their name was read") \
        X(RUNTIME_FRAMES_SHORT, "runtime_frames_total", "result=\"short\"", \
          "new compiled frames that were named, but not what may have been inlined into them") \
        X(RUNTIME_FRAMES_LATE, "runtime_frames_total", "result=\"late\"", \
          "frames left unnamed for now: their process had its time of this second, or the worker that reads it ended") \
        X(RUNTIME_FRAMES_CUT, "runtime_frames_total", "result=\"cut\"", \
          "frames of which callers that they were inlined into were left out, since the stack has too many") \
        X(RUNTIME_NAMES_FORGOTTEN, "runtime_names_forgotten_total", "", \
          "times that all names of runtimes' frames were forgotten, since they were too many") \
        X(FRAMES_OUTSIDE_MODULE, "frames_total", "kind=\"outside_module\"", \
          "frames outside the range of their module: the module was left out") \
        X(OBJECTS_OPENED, "objects_total", "result=\"opened\"", \
          "look-ups of the file of a mapping that parsed it for build id and segments; not one a frame") \
        X(OBJECTS_CACHED, "objects_total", "result=\"cached\"", \
          "look-ups of the file of a mapping that found it known") \
        X(OBJECTS_NO_BUILD_ID, "objects_total", "result=\"no_build_id\"", "files without a GNU build id") \
        X(OBJECTS_UNREADABLE, "objects_total", "result=\"unreadable\"", \
                "files that could not be opened or are no ELF64") \
        X(OBJECTS_REMOTE, "objects_total", "result=\"remote\"", \
          "files on FUSE, a network or an unknown filesystem that were left out") \
        X(OBJECTS_OVER_CAP, "objects_total", "result=\"over_cap\"", \
          "files not opened, because the cache was full") \
        X(OBJECTS_EVICTED, "objects_total", "result=\"evicted\"", \
                "files, and copies of remote ones, that gave way to others") \
        X(TARGETS_FOUND, "targets_total", "event=\"found\"", "processes that became targets") \
        X(TARGETS_GONE, "targets_total", "event=\"gone\"", "targets that exited") \
        X(TARGETS_EXEC, "targets_total", "event=\"exec\"", "targets that replaced their program") \
        X(TARGETS_VANISHED, "targets_total", "event=\"vanished\"", \
          "processes that ended while they were read") \
        X(TARGETS_OVER_CAP, "targets_total", "event=\"over_cap\"", \
          "processes not profiled, because the table was full") \
        X(TARGETS_REJECTED, "targets_total", "event=\"rejected\"", \
                "undecided processes that no selector chose") \
        X(SAMPLES_UNATTRIBUTED, "samples_unattributed_total", "", \
          "samples of targets that ended before their name or mappings were known; delivered all the same") \
        X(SWEEP_LOOKED, "sweep_total", "result=\"looked\"", "processes that the safety sweep has looked at") \
        X(SWEEP_FOUND, "sweep_total", "result=\"found\"", \
          "programs, processes and rings that the sweep found and no notice had told of") \
        X(SWEEP_RESYNCS, "sweep_total", "result=\"resync\"", \
                "sweeps over all processes, because notices were lost") \
        X(RING_INVALID, "rings_total", "result=\"invalid\"", \
                "ring headers with a wrong field, or with bytes behind them that are no slots") \
        X(RING_FOREIGN, "rings_total", "result=\"foreign\"", \
                "looks at ring headers in much other memory without a slot of the process: a guest's, likely") \
        X(RING_FOUND, "rings_total", "result=\"found\"", "context rings found and accepted") \
        X(RING_SCANS, "ring_scans_total", "result=\"complete\"", "processes searched for a ring to the end") \
        X(RING_SCANS_SKIPPED, "ring_scans_total", "result=\"skipped\"", \
                "processes not searched now, because the queue was full") \
        X(RING_SCANS_PUT_OFF, "ring_scans_total", "result=\"put_off\"", \
                "processes whose like end soon and publish nothing: searched if they live longer") \
        X(RING_SCANS_POSTPONED, "ring_scans_total", "result=\"postponed\"", \
                "turns that a search waited, because enough new memory had been read") \
        X(RING_PAGES_READ, "ring_pages_total", "result=\"read\"", "pages of processes that were searched for contexts") \
        X(RING_PAGES_KNOWN, "ring_pages_total", "result=\"known\"", \
                "pages left out, because an earlier search had read them") \
        X(RING_LOST, "rings_total", "result=\"lost\"", "rings that went away while in use") \
        X(PROCESS_CONTEXTS_FOUND, "process_contexts_total", "result=\"found\"", \
                "process contexts found and decoded") \
        X(PROCESS_CONTEXTS_UPDATED, "process_contexts_total", "result=\"updated\"", \
                "process contexts read again after a change") \
        X(PROCESS_CONTEXTS_LOST, "process_contexts_total", "result=\"lost\"", \
                "process contexts that went away") \
        X(PROCESS_CONTEXTS_UNSUPPORTED, "process_contexts_total", "result=\"unsupported\"", \
                "process contexts of another version than 2") \
        X(PROCESS_CONTEXTS_MALFORMED, "process_contexts_total", "result=\"malformed\"", \
          "process contexts with a wrong size or payload") \
        X(PROCESS_CONTEXTS_BUSY, "process_contexts_total", "result=\"busy\"", \
                "process contexts given up, because each look met an update") \
        X(THREAD_CONTEXTS_FOUND, "thread_contexts_total", "result=\"found\"", \
                "processes whose threads' contexts can be read") \
        X(THREAD_CONTEXTS_UNREAD, "thread_contexts_total", "result=\"unread\"", \
          "processes with a thread context of an unknown form, or without a way to it") \
        X(THREAD_SYMBOLS_READ, "thread_symbols_total", "result=\"read\"", \
          "files that a worker has searched for a thread context and for marks of runtimes") \
        X(THREAD_SYMBOLS_FAILED, "thread_symbols_total", "result=\"failed\"", \
                "files that no worker could search: their thread contexts and runtimes stay unknown") \
        X(THREAD_SYMBOLS_OVER_CAP, "thread_symbols_total", "result=\"over_cap\"", \
                "files that found no room, since too many others waited; they are asked for again") \
        X(THREAD_SYMBOLS_AGAIN, "thread_symbols_total", "result=\"asked_again\"", \
                "files that had found no room and were asked for again") \
        X(CONTEXTS_EARLY, "contexts_early_total", "", \
          "samples without a context from before a worker had found the thread contexts of their process") \
        X(CONTEXT_KEYS_UNKNOWN, "context_attributes_total", "result=\"unknown_key\"", \
          "attributes of new contexts whose key the process context does not name") \
        X(CONTEXT_ATTRIBUTES_MALFORMED, "context_attributes_total", "result=\"malformed\"", \
          "new contexts whose attributes end in the middle of one") \
        X(CONTEXT_ATTRIBUTES_OVERFLOW, "context_attributes_total", "result=\"overflow\"", \
          "attributes of new contexts sent as __overflow__: over 1,000 values of a key, or no room for those of a process") \
        X(LATE_NAMES_WINDOW_FULL, "context_attributes_total", "result=\"window_full\"", \
          "windows without room to give earlier samples the name that their span or service got later") \
        X(ENVIRONMENTS_UNREADABLE, "environments_unreadable_total", "", \
                "targets whose environment could not be read") \
        X(POD_NAMES_UNKNOWN, "pod_names_missing_total", "reason=\"unknown\"", \
                "resources of pods that neither `pods-directory` nor `pods-url` named, each once a window") \
        X(POD_NAMES_OVER_CAP, "pod_names_missing_total", "reason=\"over_cap\"", \
                "entries of `pods-directory` beyond 4,096, each time it is read, and of each list of pods") \
        X(POD_LABELS_OVER_CAP, "pod_labels_missing_total", "reason=\"over_cap\"", \
          "labels that `pods-labels` chooses beyond 32 of a pod, in each list of pods") \
        X(POD_LABELS_MALFORMED, "pod_labels_missing_total", "reason=\"malformed\"", \
          "labels that `pods-labels` chooses and that are none by the rules of Kubernetes, in each list of pods") \
        X(POD_LISTS_TAKEN, "pod_lists_total", "result=\"taken\"", "lists of pods that `pods-url` has answered") \
        X(POD_LISTS_FAILED, "pod_lists_total", "result=\"failed\"", \
                "requests for a list of pods that were not answered, or refused") \
        X(POD_LISTS_MALFORMED, "pod_lists_total", "result=\"malformed\"", \
          "answers about pods that are no list of them") \
        X(POD_LISTS_TOO_LARGE, "pod_lists_total", "result=\"too_large\"", \
          "answers with a list of pods of more than 32 MiB") \
        X(READS_STUCK, "target_reads_stuck_total", "", \
                "reads of a target's memory or maps that hung and were given up") \
        X(ENVIRONMENT_INVALID, "environment_attributes_invalid_total", "", \
          "malformed or too long parts of OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES of targets") \
        X(MAPS_READS, "maps_reads_total", "", "times that a target's maps were read") \
        X(MAPS_PAUSED, "maps_paused_total", "", \
                "times that long maps were read in more than one turn") \
        X(MAPS_CUT, "maps_cut_total", "", \
                "times that maps were longer than 32 MiB, and were read up to there") \
        X(MAPPINGS_OVER_CAP, "mappings_over_cap_total", "", \
                "executable mappings over the cap of one process") \
        X(TEXT_COPIES_UNPROVED, "text_copies_unproved_total", "", \
          "executable areas in the place of a file's text that did not have its bytes, or could not be read") \
        X(MAPPINGS_PAST_DROPPED, "mappings_past_dropped_total", "", \
                "replaced mappings over the cap of one process") \
        X(MAPPINGS_NOTICED, "mappings_noticed_total", "result=\"noticed\"", \
                "notices of new executable mappings") \
        X(MAPPINGS_NOTICES_LOST, "mappings_noticed_total", "result=\"lost\"", \
          "notices of mappings that found their ring full: all targets' mappings were read again") \
        X(MAPPINGS_NOTICES_MALFORMED, "mappings_noticed_total", "result=\"malformed\"", \
                "malformed records of mappings") \
        X(MAPPINGS_NOTICES_EVICTED, "mappings_noticed_total", "result=\"evicted\"", \
          "notices kept for processes that may be chosen later, dropped early for want of room") \
        X(MAPPINGS_RECALLED, "mappings_recalled_total", "", \
                "programs that ended before a look, known from notices alone") \
        X(MAPPINGS_TOLD, "mappings_told_total", "", \
                "new programs whose maps were not read: notices told of all that they had mapped") \
        X(MAPS_MALFORMED, "maps_malformed_total", "", "malformed lines of maps") \
        X(UNWIND_TABLES_OVER_CAP, "unwind_tables_total", "result=\"over_cap\"", \
                "objects without rows, because the pool was full") \
        X(UNWIND_TABLES_LOADED, "unwind_tables_total", "result=\"loaded\"", \
                "objects whose rows were loaded") \
        X(UNWIND_TABLES_NO_ROWS, "unwind_tables_total", "result=\"no_rows\"", \
                "objects without call frame information") \
        X(UNWIND_TABLES_FAILED, "unwind_tables_total", "result=\"failed\"", \
                "objects that could not be opened or loaded") \
        X(UNWIND_TABLES_KNOWN, "unwind_tables_total", "result=\"known\"", \
                "files without users that a process has mapped again: their rows were still there") \
        X(UNWIND_TABLES_EVICTED, "unwind_tables_total", "result=\"evicted\"", \
                "tables without users that made room for others") \
        X(UNWIND_CACHE_FOUND, "unwind_cache_total", "result=\"found\"", \
                "files whose rows an earlier daemon has kept") \
        X(UNWIND_CACHE_NEW, "unwind_cache_total", "result=\"new\"", \
                "files of which nothing was kept, or that have changed") \
        X(UNWIND_CACHE_DROPPED, "unwind_cache_total", "result=\"dropped\"", \
                "kept rows that made no sense: they were removed") \
        X(UNWIND_CACHE_FAILED, "unwind_cache_total", "result=\"failed\"", \
                "rows that could not be kept, or whose disk did not answer") \
        X(UNWIND_ENTRIES_BAD, "unwind_entries_bad_total", "", \
                "functions whose call frame information is bad") \
        X(UNWIND_CODE_DERIVED, "unwind_code_bytes_total", "rows=\"derived\"", \
                "bytes of code without call frame information: rows from the code itself") \
        X(UNWIND_CODE_PASSED, "unwind_code_bytes_total", "rows=\"not_scanned\"", \
                "bytes of code without call frame information: too many to be scanned") \
        X(UNWIND_FUNCTIONS_REFUSED, "unwind_functions_refused_total", "", \
                "functions without call frame information, or parts of them, whose code was not understood") \
        X(UNWIND_NODES_OVER_CAP, "unwind_nodes_over_cap_total", "", \
                "mapping tables that did not fit in the kernel") \
        X(RATE_LOWERED, "rate_lowered_total", "", "times the kernel lowered perf_event_max_sample_rate") \
        X(THROTTLED, "throttled_total", "", "times the kernel throttled the sampler's events") \
        X(TIMERS_STOPPED, "timers_stopped_total", "", \
                "timers of CPUs that had ceased to tick, and were opened again") \
        X(STAGE_DRAIN_NS, "stage_nanoseconds_total", "stage=\"drain\"", \
                "reading notices and samples, up to the window") \
        X(STAGE_WINDOW_NS, "stage_nanoseconds_total", "stage=\"window\"", \
                "closing windows: encoding, compressing") \
        X(STAGE_TABLES_NS, "stage_nanoseconds_total", "stage=\"tables\"", \
                "making and loading unwind tables") \
        X(STAGE_DISCOVERY_NS, "stage_nanoseconds_total", "stage=\"discovery\"", \
                "looking for processes, rings and mappings") \
        X(PAUSES_DISABLED, "pauses_total", "reason=\"disabled\"", \
                "times that /etc/spanprof/disabled stopped sampling") \
        X(PAUSES_COMMAND, "pauses_total", "reason=\"command\"", \
                "times that `spanprof pause` stopped sampling") \
        X(PAUSES_MEMORY, "pauses_total", "reason=\"memory\"", \
                "times that max-memory, or the control group's limit of memory, stopped sampling") \
        X(PAUSES_HOSTS, "pauses_total", "reason=\"hosts\"", "times that it was other hosts' turn") \
        X(MEMORY_HELD_TABLES, "memory_held_total", "by=\"tables\"", \
                "times that unwind tables were held at what they took, for the control group's limit of memory") \
        X(MEMORY_HELD_WINDOWS, "memory_held_total", "by=\"windows\"", "times that windows were made shorter for it") \
        X(MEMORY_HELD_FREQUENCY, "memory_held_total", "by=\"frequency\"", \
                "times that the frequency was halved for it") \
        X(FREQUENCY_LOWERED, "frequency_changes_total", "direction=\"lowered\"", \
                "times that max-cpu, or the control group's limit of CPU time, halved the frequency") \
        X(FREQUENCY_RAISED, "frequency_changes_total", "direction=\"raised\"", \
          "times that the frequency went back up") \
        X(RELOADS, "reloads_total", "result=\"applied\"", "configurations that a reload brought into force") \
        X(RELOADS_REFUSED, "reloads_total", "result=\"refused\"", \
                "reloads of a wrong configuration: the old one stayed in force") \
        X(WINDOWS, "windows_total", "", "windows of profiles closed") \
        X(CLOCK_STEPS, "clock_steps_total", "", "windows closed early by a clock step") \
        X(EXPORT_REQUESTS, "export_requests_total", "result=\"sent\"", "requests tried") \
        X(EXPORT_OK, "export_requests_total", "result=\"ok\"", "requests accepted") \
        X(EXPORT_RETRIES, "export_requests_total", "result=\"retry\"", "requests to be tried again") \
        X(EXPORT_DROPPED, "export_requests_total", "result=\"dropped\"", "requests given up") \
        X(EXPORT_BYTES, "export_bytes_total", "", "bytes of accepted requests, as sent") \
        X(VOLUME_LOWERED, "volume_changes_total", "direction=\"lowered\"", \
          "times that max-export-rate lowered the frequency") \
        X(VOLUME_RAISED, "volume_changes_total", "direction=\"raised\"", \
          "times that the frequency went back up") \
        X(VALIDATED, "validated_requests_total", "", "requests that were validated before they were sent") \
        X(VALIDATE_ERRORS, "validate_findings_total", "severity=\"error\"", "errors in our own requests") \
        X(VALIDATE_WARNINGS, "validate_findings_total", "severity=\"warning\"", \
          "warnings about our own requests") \
        X(SPOOL_WRITTEN, "spool_samples_total", "event=\"written\"", "samples stored in the spool") \
        X(SPOOL_TAKEN, "spool_samples_total", "event=\"taken\"", \
          "samples that left the spool: delivered or lost") \
        X(SPOOL_DEAD, "spool_dead_samples_total", "", \
          "samples that a receiver refused and the spool keeps for `spool retry`") \
        X(SPOOL_CORRUPT, "spool_files_corrupt_total", "", \
          "spooled files that could not be read and were set aside") \
        X(SPOOL_FAILED, "spool_errors_total", "", "batches that could not be written to the spool") \
        X(CORO_REGIONS, "coroutine_regions_total", "result=\"found\"", \
                "regions of coroutine stations found in targets") \
        X(CORO_REGIONS_REFUSED, "coroutine_regions_total", "result=\"refused\"", \
                "regions of coroutine stations that were malformed, or too many") \
        X(CORO_FILES_LEFT, "coroutine_files_left_total", "", \
                "shared files not looked into for coroutine stations, since the process has more than 1,024") \
        X(CORO_EVENTS, "coroutine_events_total", "result=\"read\"", "events read from coroutine stations") \
        X(CORO_EVENTS_LOST, "coroutine_events_total", "result=\"lost\"", \
                "events overwritten before they could be read") \
        X(CORO_SAMPLES, "coroutine_samples_total", "result=\"matched\"", "samples whose coroutine is known") \
        X(CORO_SAMPLES_NONE, "coroutine_samples_total", "result=\"none\"", \
                "samples of threads that ran no coroutine") \
        X(CORO_SAMPLES_LAPPED, "coroutine_samples_total", "result=\"lapped\"", \
                "samples of a time whose events were lost or not read") \
        X(CORO_SAMPLES_AMBIGUOUS, "coroutine_samples_total", "result=\"ambiguous\"", \
                "samples from about the end of a coroutine") \
        X(CORO_SUSPENSIONS, "coroutine_suspensions_total", "result=\"counted\"", \
                "times that a coroutine was suspended and resumed") \
        X(CORO_SUSPENSIONS_UNKNOWN, "coroutine_suspensions_total", "result=\"unknown\"", \
          "suspensions without a known end: events lost, or coroutine dead; only the seen time counts") \
        X(CORO_SUSPENSIONS_FOLDED, "coroutine_suspensions_total", "result=\"folded\"", \
          "parts of suspensions told by place alone, or as a sum: too many coroutines in one window") \
        X(CORO_SUSPENSIONS_LOST, "coroutine_suspensions_total", "result=\"lost\"", \
          "sums of one coroutine and place that the window had no room for, or whose process is unknown") \
        X(CODE_FILES_READ, "code_files_total", "result=\"read\"", \
                "perf-map files and jitdumps of targets that are read") \
        X(CODE_FILES_REFUSED, "code_files_total", "result=\"refused\"", \
          "such files of another user, writable by any, older than the process, or not regular") \
        X(CODE_FILES_UNREADABLE, "code_files_total", "result=\"unreadable\"", \
          "such files that could not be opened") \
        X(CODE_FILES_STUCK, "code_files_total", "result=\"stuck\"", \
                "such files that held up their reader and were given up") \
        X(CODE_FILES_FAILED, "code_files_total", "result=\"failed\"", \
                "times that no worker could read on in a file; it is tried again") \
        X(CODE_PROCESSES_EVICTED, "code_processes_evicted_total", "", \
          "processes whose code made at run time was forgotten, since there were too many of them, or of names") \
        X(MADE_READS, "made_rows_reads_total", "result=\"read\"", \
          "reads of the frames that processes have registered for code made at run time") \
        X(MADE_READS_TORN, "made_rows_reads_total", "result=\"torn\"", \
          "such reads that were void, since the process was just changing them, or could not be read") \
        X(MADE_FUNCTIONS, "made_functions_total", "result=\"taken\"", \
          "functions in such reads that found other areas than the one before") \
        X(MADE_FUNCTIONS_MALFORMED, "made_functions_total", "result=\"malformed\"", \
          "functions, and sections of them, that made no sense: once where reads find the same") \
        X(MADE_FUNCTIONS_OVER_CAP, "made_functions_total", "result=\"over_cap\"", \
          "functions, and areas of them, that had no room: once where reads find the same") \
        X(MADE_AREAS_VOID, "made_areas_void_total", "", \
          "areas of code made at run time without rows, once where reads find the same: memory that may change unseen, or has") \
        X(MADE_LIBRARIES_REFUSED, "made_libraries_refused_total", "", \
          "looks at processes with a library that keeps registered frames in a way that is not known") \
        X(CODE_RECORDS, "code_records_total", "result=\"taken\"", \
          "functions that perf-maps, jitdumps and lists for debuggers name") \
        X(CODE_RECORDS_MALFORMED, "code_records_total", "result=\"malformed\"", \
                "malformed lines and records") \
        X(CODE_RECORDS_OVER_CAP, "code_records_total", "result=\"over_cap\"", \
          "functions dropped for want of room, the oldest first, or left out; files too many to be asked for lists") \
        X(CODE_FRAMES_NAMED, "code_frames_total", "result=\"named\"", \
                "frames in memory without a file that have a name") \
        X(CODE_FRAMES_LATER, "code_frames_total", "result=\"later\"", \
                "frames that were sent before their name was there") \
        X(CODE_FRAMES_NONE, "code_frames_total", "result=\"none\"", \
          "frames that no file of the target names") \
        X(NAMES_NAMED, "names_total", "result=\"named\"", \
                "addresses in files whose function was found (symbols = local)") \
        X(NAMES_NONE, "names_total", "result=\"none\"", "addresses outside all functions of the file") \
        X(NAMES_STRIPPED, "names_total", "result=\"stripped\"", "addresses in files without any symbols") \
        X(NAMES_NO_ID, "names_total", "result=\"no_build_id\"", \
          "addresses in objects with neither a file nor a build id") \
        X(NAMES_OTHER, "names_total", "result=\"other_build\"", \
          "addresses whose file has another build id by now") \
        X(NAMES_UNREADABLE, "names_total", "result=\"unreadable\"", \
                "addresses whose file could not be opened or read") \
        X(NAMES_GONE, "names_total", "result=\"gone\"", \
                "addresses whose processes ended before their file was opened; the next process is asked") \
        X(NAMES_STUCK, "names_total", "result=\"stuck\"", \
          "addresses whose file held up its reader and was given up") \
        X(NAMES_LARGE, "names_total", "result=\"too_large\"", \
                "addresses in files with more symbols than a worker has memory for") \
        X(NAMES_FAILED, "names_total", "result=\"failed\"", \
                "addresses in files that no worker could read; they are tried again") \
        X(NAMES_DROPPED, "names_total", "result=\"dropped\"", \
                "addresses not looked up in this window, because the queue was full") \
        X(SYMBOL_TABLES_LOADED, "symbol_tables_total", "result=\"loaded\"", \
                "files whose functions were read (symbols = local)") \
        X(SYMBOL_TABLES_CUT, "symbol_tables_total", "result=\"cut\"", \
                "files with more functions than a table takes: the last ones have no names") \
        X(SYMBOL_TABLES_NONE, "symbol_tables_total", "result=\"none\"", \
                "files that are stripped, of another build, unreadable, or without build id") \
        X(SYMBOL_TABLES_LARGE, "symbol_tables_total", "result=\"too_large\"", \
                "files that take more memory than a worker may have") \
        X(SYMBOL_TABLES_FAILED, "symbol_tables_total", "result=\"failed\"", \
                "times that no worker could read a file; it is tried again") \
        X(SYMBOL_TABLES_AGED, "symbol_tables_total", "result=\"aged\"", \
                "tables dropped because no new address needed them for a minute or two; read again when needed") \
        X(SYMBOL_TABLES_EVICTED, "symbol_tables_total", "result=\"evicted\"", \
                "tables dropped because others needed their room (64 MiB); read again when needed") \
        X(GO_TABLES_READ, "go_tables_total", "result=\"read\"", \
                "stripped Go programs whose functions were read from Go's own table") \
        X(GO_TABLES_REFUSED, "go_tables_total", "result=\"refused\"", \
                "Go programs whose table is damaged or of an unknown version: no names") \
        X(LINES_READ, "lines_total", "result=\"read\"", \
                "addresses whose lines and inlined functions were read (symbols = local, lines = on)") \
        X(LINES_NONE, "lines_total", "result=\"none\"", \
                "addresses of which the file says no line, or in files without debug information") \
        X(LINES_CUT, "lines_total", "result=\"cut\"", \
                "addresses in files whose debug information takes more than 8 s to read: they get no lines") \
        X(LINES_FAILED, "lines_total", "result=\"failed\"", \
                "addresses in files whose debug information no worker could read, or that could not be opened") \
        X(LINES_FULL, "lines_total", "result=\"window_full\"", \
                "frames and stacks that found no room for what was inlined: they have the outer function alone") \
        X(LINES_OVER_BUDGET, "lines_over_budget_total", "", \
                "windows that ended while files waited for the time that lines may take, 10 s and 1 s a minute") \
        X(NAMES_LATE, "frames_unnamed_total", "reason=\"late\"", \
                "frames of windows sent before their name was there") \
        X(NAMELESS_READER, "nameless_samples_total", "reason=\"runtime_late\"", \
                "samples without a name, since the reader of their runtime was not ready, or had no time") \
        X(NAMELESS_RUNTIME, "nameless_samples_total", "reason=\"runtime_unknown\"", \
                "samples without a name, since this release of their runtime is not read") \
        X(NAMELESS_UNLOADED, "nameless_samples_total", "reason=\"unloaded\"", \
                "samples without a name, since their runtime had dropped the function before it was read") \
        X(NAMELESS_CODE, "nameless_samples_total", "reason=\"made_code\"", \
                "samples without a name, in code made at run time that no file of the program names") \
        X(NAMELESS_FILE, "nameless_samples_total", "reason=\"no_file\"", \
                "samples without a name, in a file that could not be read, or that is no program") \
        X(NAMELESS_UNMAPPED, "nameless_samples_total", "reason=\"no_mapping\"", \
                "samples without a name, outside of all that their process has mapped") \
        X(NAMELESS_GONE, "nameless_samples_total", "reason=\"gone\"", \
                "samples without a name, since their process had ended before it, or its file, was looked at") \
        X(NAMELESS_LATE, "nameless_samples_total", "reason=\"symbols_late\"", \
                "samples without a name, since the symbols of their file were not read yet") \
        X(NAMELESS_STRIPPED, "nameless_samples_total", "reason=\"no_symbols\"", \
                "samples without a name, in files without symbols, or none at that place") \
        X(NAMELESS_UNREAD, "nameless_samples_total", "reason=\"symbols_unread\"", \
                "samples without a name, since the symbols of their file could not be read") \
        X(NAMELESS_NO_ROOM, "nameless_samples_total", "reason=\"over_cap\"", \
                "samples without a name, since too many names or processes with a runtime were known") \
        X(NAMES_FORGOTTEN, "names_forgotten_total", "", \
                "names dropped from memory for want of room; looked up again when needed") \
        X(UPLOADS_UPLOADED, "symbol_uploads_total", "result=\"uploaded\"", \
                "files whose symbols were uploaded (symbols = upload)") \
        X(UPLOADS_KNOWN, "symbol_uploads_total", "result=\"known\"", \
                "hot files that the server has already") \
        X(UPLOADS_REFUSED, "symbol_uploads_total", "result=\"refused\"", \
                "hot files that the server will not take") \
        X(UPLOADS_UNSUPPORTED, "symbol_uploads_total", "result=\"unsupported\"", \
                "hot files that the server wants in a way that we cannot (a stream of gRPC)") \
        X(UPLOADS_NAMELESS, "symbol_uploads_total", "result=\"nameless\"", \
                "hot files that have neither symbols nor lines, nor a debug file here") \
        X(UPLOADS_OVER_BUDGET, "symbol_uploads_total", "result=\"over_budget\"", \
                "hot files that wait for the budget of another day") \
        X(UPLOADS_FAILED, "symbol_uploads_total", "result=\"failed\"", \
                "tries without success; the file is tried again, later and later") \
        X(UPLOADS_GONE, "symbol_uploads_total", "result=\"gone\"", \
                "hot files that could not be opened any more, or were replaced") \
        X(UPLOADS_NOT_ALLOWED, "symbol_uploads_total", "result=\"not_allowed\"", \
                "hot files that no pattern of upload-paths allows") \
        X(UPLOADS_NO_ID, "symbol_uploads_total", "result=\"no_build_id\"", \
                "hot files without a GNU build id: no server could find their symbols") \
        X(UPLOAD_BYTES, "symbol_upload_bytes_total", "", "bytes of symbols sent, as far as they went") \
        X(DEBUGINFOD_CACHED, "debuginfod_total", "result=\"cached\"", \
                "times that the cache had a debug file that was looked for (debuginfod = on)") \
        X(DEBUGINFOD_FETCHED, "debuginfod_total", "result=\"fetched\"", "debug files that a server sent") \
        X(DEBUGINFOD_NONE, "debuginfod_total", "result=\"none\"", "debug files that no server has") \
        X(DEBUGINFOD_REFUSED, "debuginfod_total", "result=\"refused\"", \
                "debug files not taken: of another build, no ELF, or too large") \
        X(DEBUGINFOD_FAILED, "debuginfod_total", "result=\"failed\"", \
                "times that servers did not answer; they are asked again, later and later") \
        X(DEBUGINFOD_DROPPED, "debuginfod_total", "result=\"dropped\"", \
                "debug files not asked for, since too many wait already") \
        X(DEBUGINFOD_BYTES, "debuginfod_bytes_total", "", "bytes of debug files that came") \
        X(STAGE_NAMING_NS, "stage_nanoseconds_total", "stage=\"naming\"", \
                "giving frames their functions, in the loop") \
        X(WORKERS_STARTED, "workers_total", "event=\"started\"", \
                "workers without rights that were started, one for each file or look") \
        X(WORKERS_DIED, "workers_total", "event=\"died\"", "workers that ended without an answer") \
        X(WORKERS_LATE, "workers_total", "event=\"late\"", "workers that took too long and were killed") \
        X(WORKERS_MALFORMED, "workers_total", "event=\"malformed\"", "workers whose answer was wrong") \
        X(WORKERS_EVICTED, "workers_total", "event=\"evicted\"", \
                "workers of runtimes that were ended for that of another process, since there are too many") \
        X(WORKERS_AWAITED, "workers_total", "event=\"awaited\"", \
                "times that a process had to wait for a worker, since all were busy with others") \
        X(NURSERIES_GONE, "workers_total", "event=\"nurseries_gone\"", \
                "times that no zygote was left: the daemon stops, to be started again") \
        X(NURSERIES_REPLACED, "workers_total", "event=\"nursery_replaced\"", \
                "zygotes that took the place of a lost one") \
        X(CONNECTIONS_IDLE, "connections_closed_total", "reason=\"idle\"", \
          "connections without another request after an answer") \
        X(CONNECTIONS_SLOW_HEADERS, "connections_closed_total", "reason=\"slow_headers\"", \
          "connections whose headers were not whole in time") \
        X(CONNECTIONS_SLOW_BODY, "connections_closed_total", "reason=\"slow_body\"", \
          "connections whose body came below the least rate") \
        X(CONNECTIONS_SLOW_ANSWER, "connections_closed_total", "reason=\"slow_answer\"", \
          "connections whose answer was read below the least rate") \
        X(CONNECTIONS_ADDRESS_FULL, "connections_closed_total", "reason=\"address_full\"", \
          "oldest connections of an address that had as many as one may have") \
        X(CONNECTIONS_FULL, "connections_closed_total", "reason=\"full\"", \
          "oldest connections of all, when there were as many as there may be") \
        X(LOG_LOST, "log_messages_lost_total", "", \
                "messages that standard error or the journal did not take in time") \
        X(FAULTS_NOT_TARGET, "page_faults_total", "result=\"not_target\"", \
          "page faults that samples of processes stand for that are no targets, or none any more: left out") \
        X(FAULT_SAMPLES_NOT_TARGET, "page_fault_samples_total", "event=\"not_target\"", \
          "samples of page faults of processes that are no targets, or none any more: left out") \
        X(FAULT_SAMPLES_GONE, "page_fault_samples_total", "event=\"deferred\"", \
          "samples of page faults whose process was forgotten while they waited: they are lost") \
        X(FAULT_SAMPLES_WINDOW_FULL, "page_fault_samples_total", "event=\"window_full\"", \
          "samples of page faults that found the window full: they are lost") \
        X(FINE_RECORDED, "recorder_ticks_total", "event=\"recorded\"", "the same in a window that the recorder was handed") \
        X(FINE_NOT_TARGET, "recorder_ticks_total", "event=\"not_target\"", \
          "the same of processes that are no targets, or none any more: left out") \
        X(FINE_GONE, "recorder_ticks_total", "event=\"deferred\"", \
          "the same whose process was forgotten while they waited: they are lost") \
        X(FINE_WINDOW_FULL, "recorder_ticks_total", "event=\"window_full\"", \
          "the same that found the window half full: they leave the rest to other samples") \
        X(RECORDER_KEPT, "recorder_windows_total", "event=\"kept\"", "windows that the flight recorder took in") \
        X(RECORDER_CUT, "recorder_windows_total", "event=\"cut\"", \
          "windows of which the recorder has not all: more than an eighth of its cap") \
        X(RECORDER_AGED, "recorder_windows_total", "event=\"aged\"", "windows that were dropped for their age") \
        X(RECORDER_OVER_CAP, "recorder_windows_total", "event=\"over_cap\"", \
          "windows that were dropped before their time, since the recorder was full") \
        X(RECORDER_DROPPED, "recorder_windows_total", "event=\"dropped\"", \
          "windows that the recorder still had at the stop: they are dropped") \
        X(RECORDER_KEEPS, "recorder_keeps_total", "event=\"asked\"", \
          "times that what the recorder has of something was asked to be shipped") \
        X(RECORDER_KEEPS_REFUSED, "recorder_keeps_total", "event=\"refused\"", \
          "the same that were refused, as a receiver failed or too many others were not done yet, or given up at the stop") \
        X(RECORDER_RULES, "recorder_keeps_total", "event=\"by_rule\"", \
          "traces that a rule of the configuration keeps, and later parts of them") \
        X(RECORDER_RULES_OVER_RATE, "recorder_keeps_total", "event=\"rules_over_rate\"", \
          "the same beyond 30 a minute: they are not shipped") \
        X(RECORDER_SPANS_OVER_CAP, "recorder_rules_total", "event=\"spans_over_cap\"", \
          "spans of a window for which the table of the rules had no room: no rule sees them") \
        X(RECORDER_OPERATIONS_OVER_CAP, "recorder_rules_total", "event=\"operations_over_cap\"", \
          "spans whose operation had no room in the table of what is usual: only the limit on all spans is for them") \
        X(WATCH_BUILDS_COMPARED, "watch_builds_total", "result=\"compared\"", \
          "builds that were compared with the one before") \
        X(WATCH_BUILDS_SLOWER, "watch_builds_total", "result=\"slower\"", \
          "those of which a function takes more than before") \
        X(WATCH_SERVICES_OVER_CAP, "watch_services_over_cap_total", "", \
          "services that found the table of watched ones full: one gave way, or it is not watched") \
        X(WATCH_FUNCTIONS_OVER_CAP, "watch_functions_over_cap_total", "", \
          "functions of a window without a row in the sketch of their build: they can be named by none") \
        X(WATCH_SAMPLES_UNKNOWN, "watch_samples_unknown_total", "", \
          "samples in no sketch: of processes with few, of unknown user, control group or build, where fewer than a " \
          "quarter of a window's have names, or no room") \
        X(WATCH_FILES_DROPPED, "watch_files_dropped_total", "", \
          "files of sketches that made no sense at the start, so that builds from before are not known") \
        X(RECORDER_HOOKS, "recorder_keeps_total", "event=\"by_hook\"", "traces and times that were asked for by recorder-token") \
        X(RECORDER_HOOKS_OVER_RATE, "recorder_keeps_total", "event=\"hooks_over_rate\"", \
          "the same that were refused, beyond 60 a minute") \
        X(RECORDER_HOOKS_UNAUTHORIZED, "recorder_keeps_total", "event=\"unauthorized\"", \
          "the same without a token of recorder-token: refused") \
        X(BOOSTS, "boosts_total", "event=\"asked\"", "times that `spanprof boost` was asked for") \
        X(BOOSTS_REFUSED, "boosts_total", "event=\"refused\"", \
          "the same that were refused: for want of a target or a place, or as max-cpu holds ticks of the recorder") \
        X(BOOSTS_CUT, "boosts_total", "event=\"cut\"", "boosts that ended before their time, for max-cpu or max-export-rate") \
        X(RECORDER_HELD, "recorder_held_total", "", \
          "times that max-cpu left the flight recorder no more samples than the export has") \
        X(RECORDER_HOOKS_UNREAD, "recorder_keeps_total", "event=\"unread\"", \
          "requests to recorder-listen that got 400, 404, 405, 413 or 415: which traces they meant is not known") \
        X(RECORDER_SHIPPED, "recorder_shipped_events_total", "", \
          "samples and waits that went from the recorder to the receivers: not in samples_delivered_total") \
        X(WAITS_MALFORMED, "waits_total", "event=\"malformed\"", "waits that failed a bound in decode") \
        X(WAITS_NOT_TARGET, "waits_total", "event=\"not_target\"", \
          "waits of processes that are no targets any more: left out") \
        X(WAITS_WINDOW_FULL, "waits_total", "event=\"window_full\"", \
          "waits for which a table of the window was full: left out") \
        X(CRASHES_WINDOW_FULL, "crashes_total", "event=\"window_full\"", \
          "crashes that a full window had no room for") \
        X(CRASHES_GONE, "crashes_total", "event=\"deferred\"", \
          "crashes whose process was forgotten while they waited: they are lost") \
        X(CRASHES_NOT_TARGET, "crashes_total", "event=\"not_target\"", \
          "crashes of processes that were no targets any more as they were read") \
        X(ALLOCATIONS_WINDOW_FULL, "allocations_total", "result=\"window_full\"", \
          "allocations that a full window had no room for") \
        X(ALLOCATIONS_GONE, "allocations_total", "result=\"deferred\"", \
          "allocations whose process was forgotten while they waited: they are lost") \
        X(ALLOCATIONS_NOT_TARGET, "allocations_total", "result=\"not_target\"", \
          "allocations of processes that were no targets any more as they were read") \
        X(FREES_UNKNOWN, "frees_total", "result=\"unknown\"", \
          "frees of the taken ones whose allocation is not known as alive: told before somebody looked, or left out") \
        X(LIVE_ADDED, "live_allocations_total", "event=\"added\"", \
          "allocations of `taken` that are kept as alive until their free is told") \
        X(LIVE_FREED, "live_allocations_total", "event=\"freed\"", "the same that were freed") \
        X(LIVE_ENDED, "live_allocations_total", "event=\"ended\"", \
          "the same whose process has ended, is no target any more, or was not looked at during a pause") \
        X(LIVE_FREE_LOST, "live_allocations_total", "event=\"free_lost\"", \
          "the same that are not believed any more, since their process has lost frees") \
        X(LIVE_AGAIN, "live_allocations_total", "event=\"again\"", \
          "the same that are not believed any more, since an address came again that was not freed") \
        X(LIVE_EVICTED, "live_allocations_total", "event=\"evicted\"", \
          "the same that gave way as the table was full: each that is left stands for more, so sums stay right in the mean") \
        X(LIVE_LEFT_OUT, "live_allocations_total", "event=\"left_out\"", \
          "allocations that were never kept, since evictions have thinned those of their process, or frees before were lost") \
        X(LIVE_WINDOW_FULL, "live_allocations_total", "event=\"window_full\"", \
          "times that a full window had no room for one that is alive") \
        X(ALLOC_PROBES, "alloc_probes_total", "result=\"attached\"", \
          "probes otel_memory:alloc and free of targets' files that were attached to, with --allocations") \
        X(ALLOC_PROBES_OVER_CAP, "alloc_probes_total", "result=\"over_cap\"", \
          "the same beyond 16 of a file, or 128 in all, in shares of users: left out") \
        X(ALLOC_PROBES_REFUSED, "alloc_probes_total", "result=\"refused\"", \
          "the same whose note says no place of code with a nop, or no arguments that can be read, or is cut: left out") \
        X(ALLOC_PROBES_FAILED, "alloc_probes_total", "result=\"failed\"", \
          "the same that the kernel did not attach to, and files that could not be opened for a look") \
        X(WAITS_HELD, "waits_holds_total", "", \
          "times that waits were not counted for a while: far above off-cpu-max-switches") \
        X(WAITS_LESS, "waits_limits_total", "change=\"less\"", \
          "times that less was read of waits from then on: more switches than off-cpu-max-switches") \
        X(WAITS_MORE, "waits_limits_total", "change=\"more\"", "times that more was read again") \
        X(WAITS_EARLY_OVER_CAP, "waits_total", "event=\"early_over_cap\"", \
          "waits that were under way as counting began, and are left out: there were too many") \
        X(LONG_WALKS_LATE, "wait_long_walks_total", "outcome=\"late\"", \
          "long waits that had ended as their stack was walked") \
        X(LONG_WALKS_GIVEN, "wait_long_walks_total", "outcome=\"given\"", \
          "long waits whose stack was walked while the thread stood still") \
        X(LONG_WALKS_PART, "wait_long_walks_total", "outcome=\"part\"", \
          "walks of long waits that need unwind rows which the daemon has not: tried again") \
        X(LONG_WALKS_UNREADABLE, "wait_long_walks_total", "outcome=\"unreadable\"", \
          "long waits of threads whose memory could not be read: tried again") \
        X(LONG_WALKS_OVER_CAP, "wait_long_walks_total", "outcome=\"over_cap\"", \
          "stacks of long waits left out, since too many threads wait with one") \
        X(WAIT_LOCKS_KNOWN, "wait_locks_total", "outcome=\"known\"", \
          "waits for a futex whose lock is known: a look at locks has met them") \
        X(WAIT_LOCKS_UNKNOWN, "wait_locks_total", "outcome=\"unknown\"", \
          "waits for a futex without a lock: no look has met them, they have no stack, or it is no lock that is known") \
        X(WAKERS_GONE, "wait_wakers_walked_total", "outcome=\"gone\"", \
          "stacks of wakers left out, since their process was no target any more") \
        X(THREAD_CPU_SPAN_NS, "thread_cpu_nanoseconds_total", "run=\"span\"", \
          "CPU time of targets' threads with --off-cpu and one span at both ends of a run, between two switches") \
        X(THREAD_CPU_OUTSIDE_NS, "thread_cpu_nanoseconds_total", "run=\"outside\"", \
          "CPU time of targets' threads with --off-cpu and no span at either end of a run") \
        X(THREAD_CPU_SPLIT_NS, "thread_cpu_nanoseconds_total", "run=\"split\"", \
          "CPU time of runs with another span at the end, or one that could not be read: ticks split it") \
        X(SPAN_CPU_MOVED_TICKS, "span_cpu_moved_ticks_total", "", \
          "ticks in the midst of another span's CPU time, or of none's: one period of it is that of the span they met") \
        X(SPAN_CPU_SPANS_OVER_CAP, "span_cpu_over_cap_total", "what=\"span\"", \
          "times that CPU time, or bytes, have no operation, since the table of spans was full") \
        X(SPAN_CPU_SERVICES_OVER_CAP, "span_cpu_over_cap_total", "what=\"service\"", \
          "times that the service is __overflow__, since there were too many") \
        X(SPAN_CPU_ROWS_OVER_CAP, "span_cpu_over_cap_total", "what=\"operation\"", \
          "times that the operation is __overflow__, since there were too many") \
        X(SPAN_CPU_TICKS_OVER_CAP, "span_cpu_over_cap_total", "what=\"tick\"", \
          "ticks that split no CPU time, since a window had too many") \
        X(SPAN_CPU_THREADS_OVER_CAP, "span_cpu_over_cap_total", "what=\"thread\"", \
          "ticks whose thread's bytes were left out, since there were too many threads") \
        X(SPAN_BYTES_FALLS, "span_bytes_falls_total", "", \
          "threads of Java that had allocated less than before: another one has the id, and begins again") \
        X(GOROUTINES_READ, "goroutines_total", "result=\"read\"", \
          "goroutines that waited when they were looked at, with their stacks") \
        X(GOROUTINES_RUNNING, "goroutines_total", "result=\"running\"", \
          "goroutines that had a CPU when they were looked at: left out") \
        X(GOROUTINES_MOVED, "goroutines_total", "result=\"moved\"", \
          "goroutines that ran or were moved while they were read: left out") \
        X(GOROUTINES_UNREADABLE, "goroutines_total", "result=\"unreadable\"", \
          "goroutines that could not be read, or cannot be any: left out") \
        X(GOROUTINES_PENDING, "goroutines_total", "result=\"pending\"", \
          "goroutines whose rows were on their way when they were looked at: left out") \
        X(GOROUTINES_WINDOW_FULL, "goroutines_total", "result=\"window_full\"", \
          "goroutines for which a table of the window was full: left out") \
        X(GOROUTINES_NOT_LOOKED_AT, "goroutines_total", "result=\"not_looked_at\"", \
          "goroutines that were not looked at, since all processes together had too many for a look: left out") \
        X(GOROUTINE_LISTS_UNREADABLE, "goroutine_lists_unreadable_total", "", \
          "looks at a process of Go whose list of goroutines could not be read") \
        X(RECORDING_SAMPLES, "recording_samples_total", "result=\"read\"", \
          "samples that were read of recordings of JVMs, with --jfr; one may stand for several events") \
        X(RECORDING_SAMPLES_LOST, "recording_samples_total", "result=\"lost\"", \
          "the same that found no room in an answer of a worker or in the window, or came in a refused one") \
        X(RECORDING_SAMPLES_GONE, "recording_samples_total", "result=\"gone\"", \
          "the same of processes that were forgotten before they were read") \
        X(RECORDINGS_UNREADABLE, "recordings_unreadable_total", "", \
          "looks at a recording of a JVM that gave nothing, or not all: damaged, too large, or workers failed twice") \
        X(RECORDING_GAPS, "recording_gaps_total", "", \
          "times of more than a second between two chunks of a recording: none was written, or it was missed") \
        X(RECORDINGS_OVER_CAP, "recordings_over_cap_total", "", \
          "looks for a recording of a JVM that were left out, since 256 others are open") \
        X(GO_HEAPS, "go_heaps_total", "result=\"read\"", \
          "looks at the heap profile of a program of Go, with --allocations") \
        X(GO_HEAPS_EARLY, "go_heaps_total", "result=\"early\"", \
          "the same before Go had published any count: left out, and asked again") \
        X(GO_HEAPS_OFF, "go_heaps_total", "result=\"off\"", \
          "the same of programs that keep none, or of a release that is not read: the log says why") \
        X(GO_HEAPS_UNREADABLE, "go_heaps_total", "result=\"unreadable\"", \
          "the same that gave nothing: Go changed it all the time, it is none, or its worker failed") \
        X(GO_HEAPS_GONE, "go_heaps_total", "result=\"gone\"", \
          "the same of programs that had ended when the answer came") \
        X(GO_HEAPS_HURRIED, "go_heaps_hurried_total", "result=\"asked\"", \
          "looks at a heap that were hurried, since a control group came near its limit of memory, or met it") \
        X(GO_HEAPS_NOT_HURRIED, "go_heaps_hurried_total", "result=\"too_often\"", \
          "the same that were left out: beyond 4 in a minute of a program, or its part of 32 shares (a look, 50 ms of CPU)") \
        X(MEMORY_GROUPS_OVER_CAP, "memory_groups_over_cap_total", "", \
          "control groups of programs of Go whose limit of memory is not watched: beyond 256, of which each leaves others as many, or 16 levels") \
        X(GO_HEAPS_OVER_CAP, "go_heaps_over_cap_total", "", \
          "looks that others' stacks left no room for, or after which allocations are not told until the next but one") \
        X(GO_HEAP_STACKS_LOST, "go_heap_stacks_lost_total", "", \
          "stacks of a heap profile that found no room in a window") \
        X(UTF8_REPAIRED, "utf8_repaired_total", "", "strings with bytes that were no UTF-8")

enum counter {
#define X(name, metric, label, help) COUNTER_##name,
        COUNTERS_KERNEL(X)
        COUNTER_N_KERNEL,
        COUNTER_DAEMON_FIRST = COUNTER_N_KERNEL - 1,
        COUNTERS_DAEMON(X)
        COUNTER_N,
#undef X
};
