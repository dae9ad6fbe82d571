//! The two canvases show the same chart.

use super::*;

fn chart() -> Chart {
    let line = |name: &str, color, mark, points: &[(f64, f64)]| ChartLine {
        name: name.into(),
        color,
        mark,
        points: points.to_vec(),
    };
    Chart {
        title: "Frame rate of the video".into(),
        subtitle: "H.264 over RTP at 3.1 Mb/s <& a flood> of UDP over a 10 Mb/s link; 10 s a point".into(),
        x: Axis { label: "Cross traffic sent (Mb/s)".into(), reach: 10.0 },
        y: Axis { label: "Whole frames shown (frames/s)".into(), reach: 25.0 },
        lines: vec![
            line("no reservation", Rgb::RED, Mark::Square, &[(0.0, 25.0), (6.0, 25.0), (7.0, 11.0), (12.0, 0.4)]),
            line("reservation", Rgb::BLUE, Mark::Circle, &[(0.0, 25.0), (6.0, 25.0), (7.0, 25.1), (12.0, 25.0)]),
        ],
        landmark: Some((6.8, "link full".into())),
    }
}

#[test]
fn svg_holds_every_word_and_point() {
    let svg = chart().svg();
    for word in
        ["Frame rate of the video", "&lt;&amp; a flood&gt;", "Cross traffic sent", "no reservation", "link full"]
    {
        assert!(svg.contains(word), "{word}");
    }
    assert_eq!(svg.matches("<circle").count(), 4 + 1); // four points and the legend's sample
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
}

#[test]
fn png_is_a_picture_of_the_right_size_with_both_colors() {
    let file = chart().png();
    if let Some(dir) = std::env::var_os("SLUICE_LOOK") {
        std::fs::write(std::path::Path::new(&dir).join("chart.png"), &file).unwrap();
        std::fs::write(std::path::Path::new(&dir).join("chart.svg"), chart().svg()).unwrap();
    }
    let picture = tiny_skia::Pixmap::decode_png(&file).unwrap();
    assert_eq!((picture.width(), picture.height()), (1440, 920));
    let has = |Rgb(r, g, b): Rgb| {
        picture.pixels().iter().filter(|p| (p.red(), p.green(), p.blue()) == (r, g, b)).count() > 500
    };
    assert!(has(Rgb::RED) && has(Rgb::BLUE) && has(Rgb::INK));
}

#[test]
fn an_empty_or_absurd_chart_is_still_a_picture() {
    let mut chart = chart();
    chart.lines[0].points = vec![(f64::NAN, f64::INFINITY), (-3.0, -1e300)];
    chart.lines.pop();
    chart.x.reach = 0.0;
    assert!(!chart.png().is_empty());
    chart.lines.clear();
    assert!(!chart.svg().is_empty());
}
