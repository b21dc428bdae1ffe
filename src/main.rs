//! The program. Everything is in the library; see [`huld::cli`].

fn main() -> std::process::ExitCode {
    huld::cli::main()
}
