//! libsluice from compiled C programs: against an agent in this process, and against a real one.

/// The folder of the built library, where it also has the name of its SONAME, as an installed one has.
fn built() -> std::path::PathBuf {
    let mut folder = std::env::current_exe().unwrap();
    folder.pop();
    // Another test may have made it.
    let _ = std::os::unix::fs::symlink("libsluice_c.so", folder.join("libsluice.so.1"));
    folder
}

mod c;
mod live;
