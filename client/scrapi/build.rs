//! Gives the shared library its SONAME, so that programs keep working when a later version is installed.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libscrapi.so.1");
}
