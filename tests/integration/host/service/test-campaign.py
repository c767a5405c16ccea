#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The campaign: what an operator's service meets that is wrong, one case a fault. Each fault is a test of
another file, which is run here by its name. So the list says what is covered, and fails when a test goes.

    test-campaign.py disk certificate           those whose words contain one of these
"""
import re
import subprocess
import sys

import tap

# area → fault → the file with its test, and the test's name
FAULTS = {
    "receiver": {
        "is away when we start": ("export", "a_receiver_that_comes_later_gets_everything"),
        "dies and comes back": ("run-faults", "a_receiver_that_dies_and_comes_back"),
        "is killed for good": ("run-faults", "a_receiver_that_is_killed_for_good"),
        "never takes anything": ("run-faults", "a_receiver_that_never_takes_anything"),
        "answers 400": ("export", "400_drops_the_batch"),
        "answers 401": ("export", "401_points_to_the_headers"),
        "answers 403": ("export", "403_points_to_the_headers"),
        "answers 404": ("export", "404_names_the_feature_gate"),
        "is of another draft": ("spool", "another_draft_is_told"),
        "answers 413": ("export", "413_drops_the_batch"),
        "answers 429": ("export", "429_is_tried_again"),
        "answers 502, 503 and 504": ("export", "502_503_and_504_are_tried_again"),
        "redirects": ("export", "a_redirect_is_not_followed"),
        "asks for a huge wait": ("export", "a_huge_retry_after_keeps_the_batch_and_stop_tries_once_more"),
        "asks for a wait in garbage": ("export", "garbage_in_retry_after_means_our_own_wait"),
        "closes without a reply": ("export", "a_connection_closed_without_a_reply_is_tried_again"),
        "resets": ("export", "a_reset_is_tried_again"),
        "resets in its body": ("export", "a_reply_that_is_reset_in_mid_body_is_not_sent_again"),
        "sends half a status": ("export", "half_a_status_line_is_tried_again"),
        "hangs": ("export", "a_hang_past_the_timeout_is_tried_again"),
        "sends a byte a second": ("export", "a_reply_of_one_byte_a_second_is_waited_for_as_long_as_the_timeout"),
        "sends 40 MB": ("export", "a_reply_of_40_megabytes_is_not_read"),
        "sends a bomb": ("export", "a_compressed_bomb_is_not_expanded"),
        "is a page for browsers": ("export", "a_page_for_browsers_is_no_success"),
        "speaks gRPC": ("export", "a_grpc_endpoint_is_told_from_its_frames"),
        "takes a part": ("export", "a_partial_success_is_counted_and_never_sent_again"),
        "flaps": ("export", "a_flapping_receiver_gets_each_batch_once"),
        "has no name": ("export", "a_name_that_does_not_resolve_is_tried_again"),
        "is one of three that is away": ("run-exports", "one_that_is_away_holds_up_no_other_and_finds_its_samples_in_its_spool"),
    },
    "resolver": {
        "never answers": ("export", "a_resolver_that_never_answers_holds_up_nothing"),
    },
    "proxy": {
        "is dead": ("doctor", "a_proxy_that_is_dead"),
    },
    "certificate": {
        "of another authority": ("export-tls", "a_receiver_signed_by_another_gets_nothing"),
        "of another name": ("export-tls", "a_receiver_of_another_name_gets_nothing"),
        "that has run out": ("export-tls", "a_receiver_whose_certificate_has_run_out_gets_nothing"),
        "that is about to run out": ("certificates", "a_daemon_has_a_metric_for_each"),
        "of authorities that is missing": ("export-tls", "a_missing_authority_file_is_said"),
        "of ours that is refused": ("export-tls", "a_refused_client_certificate_is_tried_again"),
        "asked of a port without TLS": ("export-tls", "plain_http_behind_https_is_tried_again"),
        "that is mended later": ("export-tls", "what_no_certificate_let_through_is_delivered_after_it_was_mended"),
        "with a spool, and no HTTP": ("export-tls", "what_another_program_answered_is_kept"),
    },
    "disk": {
        "is full": ("spool", "a_really_full_disk"),
        "is full in a write": ("spool", "a_disk_that_is_full_in_the_middle_of_a_write_leaves_nothing_of_it"),
        "fails at each step": ("spool", "errors_at_each_step_of_a_write_keep_the_batch_in_memory"),
        "cannot be written": ("spool", "a_read_only_spool_is_told"),
        "hangs": ("spool-ahead", "that_hangs_holds_up_nobody"),
        "hangs at the stop": ("spool-ahead", "that_hangs_does_not_hold_up_the_stop_and_what_it_did_not_store_is_counted"),
        "is full under an output": ("outputs", "a_full_disk_loses_nothing_of_the_old_file"),
    },
    "spool": {
        "over its bytes": ("spool", "over_its_bytes_the_oldest_go"),
        "over its age": ("spool", "over_its_age_they_go"),
        "with a damaged file": ("spool", "a_damaged_file_is_set_aside_and_counted"),
        "with a file that somebody removes": ("spool", "a_file_that_somebody_removes_is_not_waited_for"),
        "whose directory is removed": ("run-spool", "whose_directory_was_removed_goes_on_in_the_one_that_is_there"),
        "that two want": ("spool", "of_two_only_one_has_it"),
        "of the user that cannot be made": ("control", "one_that_was_set_and_cannot_be_made_is_an_end"),
        "of the service that cannot be made": ("control", "that_of_the_service_is_done_without_and_shown"),
        "with refused requests": ("spool", "what_was_refused_is_sent_again_when_a_person_says_so"),
        "without room for refused requests": ("spool", "without_room_for_letters_the_refusal_is_a_loss_that_is_told"),
        "of another version": ("spool", "of_the_version_before_is_read"),
    },
    "daemon": {
        "is killed at each step of a write": ("spool", "at_each_step_of_writing_leaves_whole_batches_or_none"),
        "is killed again and again": ("run-spool", "again_and_again_loses_nothing_that_was_on_the_disk"),
        "is stopped for a while": ("machine-faults", "stopped_for_a_while_it_counts_what_it_missed_and_goes_on"),
        "has too few descriptors": ("machine-faults", "too_few_descriptors_are_said_or_done_without"),
        "runs out of descriptors": ("machine-faults", "descriptors_that_run_out_while_it_works_are_done_without_until_there_are_more"),
        "gets no memory": ("machine-faults", "an_allocation_that_fails_ends_it_in_order"),
        "takes too much memory": ("control", "too_much_memory_pauses_and_says_so"),
        "takes too much CPU": ("control", "too_much_cpu_lowers_the_frequency_and_the_period_stays_true"),
        "has a log that nobody reads": ("control", "a_log_that_nobody_reads_holds_up_nothing"),
        "has a loop that is stuck": ("control", "a_stuck_loop_does_not_answer"),
        "lacks each capability": ("doctor", "each_capability_missing_alone"),
        "is filtered by seccomp": ("doctor", "a_filter_of_system_calls_that_forbids_ours"),
        "has no BTF": ("doctor", "no_btf"),
        "has garbage for BTF": ("doctor", "btf_that_is_none"),
        "has names of the kernel hidden by a sandbox": ("control", "one_that_is_covered_and_uncovered"),
        "may use no BPF": ("run-faults", "a_kernel_that_allows_no_bpf"),
    },
    "port": {
        "of metrics is taken": ("control", "a_port_of_metrics"),
        "of control is taken": ("control", "the_control_socket"),
        "is held by hundreds": ("control", "are_answered_while_hundreds_send_a_byte_now_and_then"),
        "is held by connections alone": ("control", "are_answered_again_when_those_who_only_held_connections_are_gone"),
    },
    "configuration": {
        "has a bad line": ("run-faults", "a_bad_line_of_the_configuration"),
        "is wrong at a reload": ("operate", "keeps_the_old_configuration_when_the_new_one_is_wrong"),
        "is refused by the kernel at a reload": ("operate", "comes_back_to_the_old_one_when_the_new_one_cannot_be_used"),
        "is wrong at systemctl reload": ("operate", "by_the_unit_fails_when_the_new_one_is_wrong"),
        "is reloaded many times at once": ("operate", "many_at_once_lose_no_tick"),
    },
    "machine": {
        "takes a CPU away": ("machine-faults", "timers_that_a_cpu_took_with_it_unseen_are_opened_anew"),
        "runs strangers that nobody judged": ("machine-faults", "ticks_of_strangers_that_nobody_judged_are_no_coverage"),
    },
    "target": {
        "changes its mappings while they are read": ("run-hostile", "mappings_that_change_while_they_are_read"),
        "has a gigabyte of maps": ("run-hostile", "a_gigabyte_of_maps"),
        "has a file that never answers": ("run-hostile", "a_file_that_never_answers"),
        "has files with crafted tables": ("run-hostile", "files_with_crafted_tables"),
        "has a ring that is wrong": ("run-faults", "a_ring_that_is_wrong_from_the_start_is_never_used"),
        "has a writer that never finishes": ("run-faults", "a_writer_that_never_finishes"),
        "cuts a library": ("run-faults", "a_library_that_was_cut_while_mapped"),
        "has names that lie": ("run-hostile", "names_that_lie"),
        "is stopped": ("run-faults", "a_stopped_target"),
    },
}


def case(file, name):
    def run(self):
        script = tap.SCRIPTS[f"test-{file}"]
        self.assertRegex(script.read_text(), rf"def test_{name}\(", "the list is of tests that are there")
        done = subprocess.run([sys.executable, script, f"test_{name}"], capture_output=True, text=True, timeout=900)
        line = re.search(rf"^(not )?ok \d+ - \w+\.test_{name}(?: # SKIP (.+))?$", done.stdout, re.M)
        self.assertIsNotNone(line, done)
        if line[2]:
            tap.skip(line[2])
        self.assertIsNone(line[1], done.stdout)

    return run


class Campaign(tap.TestCase):
    pass


for area, faults in FAULTS.items():
    for fault, (file, name) in faults.items():
        words = re.sub(r"\W+", "_", f"{area} {fault}")
        assert not hasattr(Campaign, f"test_{words}"), words
        setattr(Campaign, f"test_{words}", case(file, name))

tap.main()
