#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| huld_fuzz::batch_view(data));
