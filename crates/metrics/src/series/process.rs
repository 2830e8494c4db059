//! Series about the process (MET-27).

use super::Presence::Start;
use super::Stability::Convention;
use super::{Series, table};

table!(PROCESS {
    PROCESS_CPU = Series::counter("process_cpu_seconds_total").is(Convention).from(Start)
        .help("Processor time that this process used, in user and system mode.");
    PROCESS_OPEN_FILES = Series::gauge("process_open_fds").is(Convention).from(Start)
        .help("File descriptors that are open.");
    PROCESS_MAX_FILES = Series::gauge("process_max_fds").is(Convention).from(Start)
        .help("File descriptors that may be open.");
    PROCESS_RESIDENT = Series::gauge("process_resident_memory_bytes").is(Convention).from(Start)
        .help("Memory that is resident.");
    PROCESS_VIRTUAL = Series::gauge("process_virtual_memory_bytes").is(Convention).from(Start)
        .help("Virtual memory.");
    PROCESS_MAX_VIRTUAL = Series::gauge("process_virtual_memory_max_bytes").is(Convention).from(Start)
        .help("Virtual memory that may be used; -1 if there is no limit.");
    PROCESS_START_TIME = Series::gauge("process_start_time_seconds").is(Convention).from(Start)
        .help("When this process started, in Unix time.");
    PROCESS_RECEIVED = Series::counter("process_network_receive_bytes_total").is(Convention).from(Start)
        .help("Bytes that came in over the network of this process, on all its interfaces.");
    PROCESS_SENT = Series::counter("process_network_transmit_bytes_total").is(Convention).from(Start)
        .help("Bytes that went out over the network of this process, on all its interfaces.");
});
