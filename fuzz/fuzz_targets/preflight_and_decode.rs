#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| huld_fuzz::preflight_and_decode(data));
