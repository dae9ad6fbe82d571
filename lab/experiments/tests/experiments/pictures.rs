//! The pictures in `docs/traffic/figures` are those that the algorithms draw, and each page shows its own.

use std::fs;
use std::path::Path;

#[test]
fn committed_pictures_are_those_that_the_algorithms_draw() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/traffic");
    let pictures = experiments::pictures::all();
    for (name, svg) in &pictures {
        let file = pages.join(format!("figures/{name}.svg"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&file, svg).expect("writable");
        }
        let committed = fs::read_to_string(&file).unwrap_or_default();
        assert!(committed == *svg, "{} is not what is drawn now; look, then UPDATE_GOLDEN=1", file.display());
        let page = fs::read_to_string(pages.join(format!("{name}.md"))).expect("each picture has a page");
        assert!(page.contains(&format!("](figures/{name}.svg)")), "{name}.md does not show its picture");
    }
    let files = fs::read_dir(pages.join("figures")).expect("readable").count();
    assert_eq!(files, pictures.len(), "a picture that nobody draws");
}
