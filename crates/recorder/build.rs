//! The library must bring no other into the programs that it is preloaded into: what Rust's runtime needs of
//! libgcc is linked statically.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
}
