//! No two files need each other: what a file takes from others, they must not take back, by any
//! way round. A module that only hands names on is looked through.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, File, Item, ItemMod, UseTree, Visibility};

use crate::{SOURCES, files};

/// A module's way from its crate's root.
type Way = Vec<String>;

/// One file: what it hands on from others by name, and what it names itself.
#[derive(Default)]
struct Room {
    path: PathBuf,
    handed_on: BTreeMap<String, Way>,
    globs_handed_on: Vec<Way>,
    named: BTreeSet<Way>,
}

/// Reads one file's paths; each is made absolute, from the crate's root.
struct Reader<'a> {
    at: &'a Way,
    children: BTreeSet<String>,
    room: Room,
}

impl Reader<'_> {
    /// The way of a path as it stands in this file, when it leads to the same crate.
    fn absolute(&self, segments: &[String]) -> Option<Way> {
        let mut way = match segments.first()?.as_str() {
            "crate" => Vec::new(),
            "self" => self.at.clone(),
            "super" => self.at[..self.at.len().checked_sub(1)?].to_vec(),
            child if self.children.contains(child) => {
                let mut way = self.at.clone();
                way.push(child.to_owned());
                way
            }
            _ => return None,
        };
        for segment in &segments[1..] {
            match segment.as_str() {
                "super" => drop(way.pop()?),
                "self" => {}
                name => way.push(name.to_owned()),
            }
        }
        Some(way)
    }

    fn imports(&mut self, tree: &UseTree, before: &mut Vec<String>, hands_on: bool) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.imports(&path.tree, before, hands_on);
                before.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.imports(tree, before, hands_on);
                }
            }
            UseTree::Name(name) => self.import(before, &name.ident.to_string(), None, hands_on),
            UseTree::Rename(name) => {
                let bound = name.rename.to_string();
                self.import(before, &name.ident.to_string(), Some(bound), hands_on);
            }
            UseTree::Glob(_) => {
                let Some(way) = self.absolute(before) else {
                    return;
                };
                if hands_on {
                    self.room.globs_handed_on.push(way);
                } else {
                    self.room.named.insert(way);
                }
            }
        }
    }

    fn import(&mut self, before: &[String], name: &str, bound: Option<String>, hands_on: bool) {
        let mut segments = before.to_vec();
        segments.push(name.to_owned());
        let Some(way) = self.absolute(&segments) else {
            return;
        };
        if hands_on {
            let bound = bound.unwrap_or_else(|| name.to_owned());
            self.room.handed_on.insert(bound, way);
        } else {
            self.room.named.insert(way);
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| {
        a.path().is_ident("cfg") && {
            let tokens = a.meta.require_list().map(|list| list.tokens.to_string());
            tokens.is_ok_and(|tokens| tokens.contains("test"))
        }
    })
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            let hands_on = !matches!(item.vis, Visibility::Inherited);
            self.imports(&item.tree, &mut Vec::new(), hands_on);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if segments.len() > 1
            && let Some(way) = self.absolute(&segments)
        {
            self.room.named.insert(way);
        }
        visit::visit_path(self, path);
    }

    // `pub(in path)` says who may look, not what is needed.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

fn way_of(path: &Path) -> Way {
    let mut way: Way = path
        .with_extension("")
        .components()
        .map(|c| c.as_os_str().to_string_lossy().into_owned())
        .collect();
    if matches!(way.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        way.pop();
    }
    way
}

fn read(dir: &str) -> BTreeMap<Way, Room> {
    let mut rooms = BTreeMap::new();
    for (path, text) in files(dir, "rs") {
        let at = way_of(path.strip_prefix(dir).unwrap());
        let file: File = syn::parse_file(&text).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let children = file.items.iter().filter_map(|item| match item {
            Item::Mod(child) if child.content.is_none() => Some(child.ident.to_string()),
            _ => None,
        });
        let mut reader = Reader {
            at: &at,
            children: children.collect(),
            room: Room {
                path,
                ..Room::default()
            },
        };
        reader.visit_file(&file);
        let room = reader.room;
        rooms.insert(at, room);
    }
    rooms
}

/// The file that defines what a way names: through whatever only hands it on.
fn defined_in(rooms: &BTreeMap<Way, Room>, way: &[String], steps_left: u32) -> Option<Way> {
    let depth = (0..=way.len())
        .rev()
        .find(|n| rooms.contains_key(&way[..*n]))?;
    let (file, rest) = way.split_at(depth);
    let room = &rooms[file];
    if steps_left > 0
        && let Some(name) = rest.first()
    {
        if let Some(origin) = room.handed_on.get(name) {
            let mut onward = origin.clone();
            onward.extend(rest[1..].iter().cloned());
            return defined_in(rooms, &onward, steps_left - 1);
        }
        if let [only] = room.globs_handed_on.as_slice() {
            let mut onward = only.clone();
            onward.extend(rest.iter().cloned());
            return defined_in(rooms, &onward, steps_left - 1);
        }
    }
    Some(file.to_vec())
}

/// Whom each file needs.
fn needs(rooms: &BTreeMap<Way, Room>) -> BTreeMap<&Way, BTreeSet<Way>> {
    let of = |at: &Way, room: &Room| {
        let named = room.named.iter();
        named
            .filter_map(|way| defined_in(rooms, way, 16))
            .filter(|other| other != at)
            .collect()
    };
    rooms.iter().map(|(at, room)| (at, of(at, room))).collect()
}

/// A way from `from` back to itself.
fn circle(needs: &BTreeMap<&Way, BTreeSet<Way>>, from: &Way) -> Option<Vec<Way>> {
    let mut came_from: BTreeMap<Way, Way> = BTreeMap::new();
    let mut open = vec![from.clone()];
    while let Some(at) = open.pop() {
        for next in needs.get(&at).into_iter().flatten() {
            if next == from {
                let mut way = vec![at.clone()];
                while way.last() != Some(from) {
                    way.push(came_from[way.last()?].clone());
                }
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(next) {
                came_from.insert(next.clone(), at.clone());
                open.push(next.clone());
            }
        }
    }
    None
}

/// All files that `file` of a crate's folder `dir` needs, directly or by others.
pub fn reached_from(dir: &str, file: &str) -> BTreeSet<String> {
    let rooms = read(dir);
    let needs = needs(&rooms);
    let is_it = |room: &Room| room.path == Path::new(file);
    let start = rooms.iter().find(|(_, room)| is_it(room));
    let mut open: Vec<Way> = start.map(|(at, _)| at.clone()).into_iter().collect();
    let mut reached: BTreeSet<Way> = open.iter().cloned().collect();
    while let Some(at) = open.pop() {
        for next in needs.get(&at).into_iter().flatten() {
            if reached.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    let files = reached
        .iter()
        .map(|at| rooms[at].path.display().to_string());
    files.collect()
}

#[test]
fn no_two_files_need_each_other() {
    let mut found = Vec::new();
    for dir in SOURCES {
        let rooms = read(dir);
        let needs = needs(&rooms);
        let edges: usize = needs.values().map(BTreeSet::len).sum();
        assert!(edges > rooms.len() / 2, "{dir}: nothing was read");
        let mut told: BTreeSet<&Way> = BTreeSet::new();
        for at in rooms.keys() {
            if told.contains(at) {
                continue;
            }
            if let Some(way) = circle(&needs, at) {
                let files = way.iter().map(|at| rooms[at].path.display().to_string());
                found.push(files.collect::<Vec<_>>().join(" -> "));
                told.extend(rooms.keys().filter(|at| way.contains(at)));
            }
        }
    }
    assert!(found.is_empty(), "circles:\n{}", found.join("\n"));
}
