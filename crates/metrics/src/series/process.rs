//! Series about the process (MET-27).

use super::Presence::Start;
use super::Stability::Convention;
use super::{Series, table};

table!(PROCESS {
    PROCESS_CPU = Series::counter("process_cpu_seconds_total").is(Convention).from(Start)
        .help("Total user and system CPU time, in seconds.");
    PROCESS_OPEN_FILES = Series::gauge("process_open_fds").is(Convention).from(Start)
        .help("Number of open file descriptors.");
    PROCESS_MAX_FILES = Series::gauge("process_max_fds").is(Convention).from(Start)
        .help("Maximum number of open file descriptors.");
    PROCESS_RESIDENT = Series::gauge("process_resident_memory_bytes").is(Convention).from(Start)
        .help("Resident memory size, in bytes.");
    PROCESS_VIRTUAL = Series::gauge("process_virtual_memory_bytes").is(Convention).from(Start)
        .help("Virtual memory size, in bytes.");
    PROCESS_MAX_VIRTUAL = Series::gauge("process_virtual_memory_max_bytes").is(Convention).from(Start)
        .help("Maximum amount of virtual memory, in bytes; -1 if there is no limit.");
    PROCESS_START_TIME = Series::gauge("process_start_time_seconds").is(Convention).from(Start)
        .help("Start time of the process, in seconds since the Unix epoch.");
    PROCESS_RECEIVED = Series::counter("process_network_receive_bytes_total").is(Convention).from(Start)
        .help("Bytes received over all network interfaces.");
    PROCESS_SENT = Series::counter("process_network_transmit_bytes_total").is(Convention).from(Start)
        .help("Bytes sent over all network interfaces.");
});
