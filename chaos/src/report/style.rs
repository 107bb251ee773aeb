//! The page's style: light and dark by the reader's own setting, nothing loaded from elsewhere.

/// One sheet for the page and the plots in it.
pub(super) const SHEET: &str = r#"
:root{color-scheme:light dark;--page:#fbfbf9;--card:#fff;--ink:#1d2433;--soft:#5b6577;--line:#dfe2e8;
--admitted:#2a9d8f;--denied:#a3adbd;--degraded:#e9a03b;--error:#c8364b;--ok:#1e7d5c;--slow:#98610b;--bad:#b3243b;
--p50:#3d6fb6;--p99:#8a5cc2;--max:#c9a0e0;--away:#f3d3d7;--served:#bfe3dc;--stall:#6b5b95;--mark:#1d2433}
@media (prefers-color-scheme:dark){:root{--page:#12161e;--card:#1a202b;--ink:#e7eaf0;--soft:#9aa5b8;
--line:#313a49;--admitted:#39b8a7;--denied:#5d6b80;--degraded:#e0a04a;--error:#ef6b7f;--ok:#58c79d;--slow:#e0a04a;
--bad:#ff7d90;--p50:#79a8ec;--p99:#b994ee;--max:#6e5590;--away:#5d2732;--served:#1f5b53;--stall:#a594d6;
--mark:#e7eaf0}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1200px;padding:32px 20px 64px;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,"DejaVu Sans",sans-serif}
h1{font-size:26px;margin:0 0 4px}h2{font-size:19px;margin:0}h3{font-size:15px;margin:18px 0 4px}
p{margin:4px 0}.soft{color:var(--soft)}.small{font-size:13px}
.verdict{font-weight:600}.ok{color:var(--ok)}.bad{color:var(--bad)}.slow{color:var(--slow)}
.scroll{overflow-x:auto;margin:20px 0 8px}
table{border-collapse:collapse;width:100%;font-size:12.5px;font-variant-numeric:tabular-nums}
th,td{padding:5px 5px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{color:var(--soft);font-weight:600;vertical-align:bottom;white-space:normal;line-height:1.25}
th.name,td.name{text-align:left}td.name a{color:inherit}
thead tr.groups th{text-align:center;border-bottom:0;padding-bottom:0}
section{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:18px 20px;
margin:22px 0}
.head{display:flex;justify-content:space-between;gap:16px;align-items:baseline;flex-wrap:wrap}
details{margin-top:10px}summary{cursor:pointer;color:var(--soft)}
code{font:13px ui-monospace,"DejaVu Sans Mono",monospace}
.key{display:flex;flex-wrap:wrap;gap:4px 18px;margin:10px 0 2px;font-size:13px;color:var(--soft)}
.key i{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:6px;
vertical-align:-1px}
.key i.stroke{height:3px;vertical-align:4px}
svg{display:block;width:100%;height:auto;margin-top:6px}
svg text{fill:var(--soft);font:11px system-ui,"DejaVu Sans",sans-serif}
svg .mark{fill:var(--mark);font-weight:600}
svg .grid{stroke:var(--line);stroke-width:1}
svg .at{stroke:var(--mark);stroke-width:1;stroke-dasharray:3 3}
svg .deadline{stroke:var(--bad);stroke-width:1;stroke-dasharray:6 3}
svg .admitted{fill:var(--admitted)}svg .denied{fill:var(--denied)}
svg .degraded{fill:var(--degraded)}svg .error{fill:var(--error)}
svg .asked{fill:none;stroke:var(--ink);stroke-width:1.2}
svg .p50,svg .p99,svg .max{fill:none;stroke-width:1.5}
svg .p50{stroke:var(--p50)}svg .p99{stroke:var(--p99)}svg .max{stroke:var(--max)}
svg .served{fill:var(--served)}svg .stall{fill:var(--stall)}svg .away{fill:var(--away)}
svg .touch{fill:transparent}svg .touch:hover{fill:var(--ink);fill-opacity:.07}
"#;
