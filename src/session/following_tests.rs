use super::*;

fn caller(variables: &[(&str, &str)], cwd: &str) -> Arc<Caller> {
    Arc::new(Caller {
        environment: variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        cwd: cwd.into(),
        umask: 0o022,
        limits: None,
        python: None,
        kernel: None,
        mode: None,
        named: Vec::new(),
    })
}

fn by(caller: &Arc<Caller>) -> Cell {
    Cell::new("1").caller(Arc::clone(caller))
}

fn step(following: &Following, cell: &Cell) -> Step {
    following.step(cell, Path::new("/place"), None, &Configured::default())
}

#[test]
fn the_same_caller_in_the_same_place_wants_nothing() {
    let first = caller(&[("PATH", "/bin")], "/a");
    let following = Following::new(&first, Mode::Project, Configured::default());
    for cell in [
        Cell::new("1"),
        by(&first),
        by(&caller(&[("PATH", "/bin")], "/a")),
    ] {
        let step = step(&following, &cell);
        assert!(step.caller.is_none() && step.directory.is_none() && step.anew.is_none());
    }
}

#[test]
fn the_kernel_goes_where_the_caller_is_or_says() {
    let mut following = Following::new(&caller(&[], "/a"), Mode::Project, Configured::default());
    let wants = |following: &Following, cell: &Cell| step(following, cell).directory;
    let (there, back) = (by(&caller(&[], "/b")), by(&caller(&[], "/a")));
    assert_eq!(wants(&following, &back), None);
    let moved = step(&following, &there);
    assert_eq!(moved.directory.as_deref(), Some(Path::new("/b")));
    assert_eq!(
        wants(&following, &there),
        Some("/b".into()),
        "it was refused"
    );
    following.followed(moved);
    assert_eq!(wants(&following, &there), None, "once");
    assert_eq!(wants(&following, &back), Some("/a".into()));
    let said = Cell::new("1").directory("c");
    assert_eq!(wants(&following, &said), Some("/b/c".into()));
    let said = back.clone().directory("c");
    assert_eq!(wants(&following, &said), Some("/a/c".into()));
    let said = there.clone().directory("/c");
    assert_eq!(wants(&following, &said), Some("/c".into()));
}

#[test]
fn what_is_not_in_force_is_told_once_for_each_value() {
    let first = caller(&[("VIRTUAL_ENV", "/one"), ("PATH", "/bin")], "/a");
    let mut following = Following::new(&first, Mode::Project, Configured::default());
    let mut told = |variables: &[(&str, &str)]| {
        let step = step(&following, &by(&caller(variables, "/a")));
        following.followed(step)
    };
    let path = ("PATH", "/bin");
    let other = told(&[("VIRTUAL_ENV", "/two"), path, ("TERM", "x")]).unwrap();
    assert_eq!(
        other,
        "this session keeps the environment with which its kernel was started: VIRTUAL_ENV is /one \
         (this caller: /two); a reset (state is lost) takes the caller's, and another session has its own"
    );
    assert_eq!(told(&[("VIRTUAL_ENV", "/one"), path]), None);
    assert_eq!(told(&[("VIRTUAL_ENV", "/two"), path]), None, "told before");
    let none = told(&[path]).unwrap();
    assert!(
        none.contains("VIRTUAL_ENV is /one (this caller: not set)"),
        "{none}"
    );
    assert_eq!(told(&[("VIRTUAL_ENV", ""), path]), None, "empty is not set");
    let long = "/\u{1b}".repeat(1_000);
    let both = told(&[("CONDA_PREFIX", "/c"), ("PATH", &long)]).unwrap();
    assert!(
        both.contains(
            "CONDA_PREFIX is not set (this caller: /c), PATH (this caller also has /\u{fffd}/"
        ),
        "{both}"
    );
    assert!(
        !both.chars().any(char::is_control) && both.len() < 1_200,
        "{both}"
    );
    for n in 0..1_000 {
        assert!(told(&[("PATH", &n.to_string())]).is_some());
    }
    assert!(following.told.len() <= MOST_TOLD);
}

#[test]
fn of_another_path_it_is_told_what_it_has_and_what_it_lacks() {
    for (theirs, words) in [
        ("/x:/a:/b:/c", "PATH (this caller also has /x); a reset"),
        ("/a:/c", "PATH (this caller lacks /b)"),
        ("/c:/b:/a", "PATH (this caller has it in another order)"),
        ("/a:/a:/b:/c", "PATH (this caller has it in another order)"),
        (
            "/x:/x:/y:/a:/b",
            "PATH (this caller also has /x and /y, and lacks /c)",
        ),
        (
            "/1:/2:/3:/4:/5",
            "PATH (this caller also has /1, /2, /3 and 2 more, and lacks /a, /b and /c)",
        ),
    ] {
        let mut following = Following::new(
            &caller(&[("PATH", "/a:/b:/c")], "/a"),
            Mode::Project,
            Configured::default(),
        );
        let step = step(&following, &by(&caller(&[("PATH", theirs)], "/a")));
        let told = following.followed(step).unwrap();
        assert!(told.contains(words), "{told}");
        assert!(told.len() < 300, "{told}");
    }
}

#[test]
fn an_interpreter_that_is_named_counts_if_it_is_another() {
    let named = |python: &str| {
        let mut caller = (*caller(&[], "/a")).clone();
        caller.python = Some(python.into());
        by(&Arc::new(caller))
    };
    let mut following = Following::new(&caller(&[], "/a"), Mode::Project, Configured::default());
    let interpreter = Interpreter {
        executable: "/p/python".into(),
        version: "3.13.0".into(),
        prefix: "/p".into(),
    };
    let wants = |following: &Following, cell: &Cell| {
        following
            .step(
                cell,
                Path::new("/place"),
                Some(&interpreter),
                &Configured::default(),
            )
            .anew
    };
    assert!(wants(&following, &named("/p/python")).is_none());
    let anew = wants(&following, &named("/link/python")).unwrap();
    assert_eq!(anew.reason, LossReason::Replaced);
    assert_eq!(anew.place, Path::new("/place"));
    following.is_the_same(anew);
    assert!(wants(&following, &named("/link/python")).is_none());
    let anew = wants(&following, &named("/q/python")).unwrap();
    following.taken_over(anew);
    assert!(wants(&following, &named("/link/python")).is_some());
}

#[test]
fn a_reset_takes_all_from_its_caller() {
    let first = caller(&[("A", "1")], "/place");
    let following = Following::new(&first, Mode::Project, Configured::default());
    let anew = |cell: Cell| step(&following, &cell.reset()).anew;
    assert!(anew(Cell::new("1")).is_none() && anew(by(&first)).is_none());
    let elsewhere = anew(by(&caller(&[("A", "1")], "/b"))).unwrap();
    assert_eq!(elsewhere.place, Path::new("/b"));
    let other = caller(&[("A", "2")], "/place");
    let theirs = anew(by(&other)).unwrap();
    assert!(Arc::ptr_eq(&theirs.caller, &other));
    assert_eq!(theirs.reason, LossReason::Reset);
    let said = anew(Cell::new("1").directory("/c")).unwrap();
    assert_eq!(said.place, Path::new("/c"));
    assert_eq!(said.caller.environment, first.environment);
}

#[test]
fn who_says_nothing_of_an_environment_is_told_of_no_difference() {
    let mut following = Following::new(
        &caller(&[("PATH", "/bin")], "/a"),
        Mode::Project,
        Configured::default(),
    );
    let went = step(&following, &by(&caller(&[], "/b")));
    assert_eq!(went.directory.as_deref(), Some(Path::new("/b")));
    assert_eq!(following.followed(went), None);
    let other = step(&following, &by(&caller(&[("PATH", "/other")], "/b")));
    let told = following.followed(other).unwrap();
    assert!(
        told.contains("PATH (this caller also has /other, and lacks /bin)"),
        "{told}"
    );
}

#[test]
fn another_mode_that_is_asked_for_is_another_kernel() {
    let first = caller(&[], "/a");
    let mut following = Following::new(&first, Mode::Project, Configured::default());
    let wants = |cwd: &str, mode| {
        by(&Arc::new(Caller {
            mode,
            ..Caller::clone(&caller(&[], cwd))
        }))
    };
    let same = wants("/a", Some(Mode::Project));
    assert!(step(&following, &same).anew.is_none());
    let strict = wants("/b", Some(Mode::Strict));
    let mut wanted = step(&following, &strict);
    let anew = wanted.anew.take().unwrap();
    assert_eq!(
        (anew.reason, anew.mode),
        (LossReason::Replaced, Mode::Strict)
    );
    // It has a place of its own, and stays there whoever calls.
    assert_eq!(wanted.directory, None);
    following.taken_over(anew);
    following.followed(wanted);
    for mode in [None, Some(Mode::Strict)] {
        let elsewhere = step(&following, &wants("/c", mode));
        assert!(elsewhere.anew.is_none() && elsewhere.directory.is_none());
    }
    // A reset keeps it; only asking for the other one ends it, where the caller is.
    let reset = step(&following, &wants("/c", None).reset());
    assert_eq!(reset.anew.unwrap().mode, Mode::Strict);
    let back = step(&following, &wants("/c", Some(Mode::Project)));
    let anew = back.anew.unwrap();
    assert_eq!(anew.place, Path::new("/c"));
    assert_eq!(
        (anew.reason, anew.mode),
        (LossReason::Replaced, Mode::Project)
    );
}

#[test]
fn a_place_that_is_named_and_strict_mode_do_not_go_together() {
    let following = Following::new(&caller(&[], "/a"), Mode::Strict, Configured::default());
    let cell = by(&caller(&[], "/a")).directory("/b");
    let told = following.misplaced(&cell, &Configured::default()).unwrap();
    assert!(
        told.contains("/b") && told.contains("`caller.mode`"),
        "{told}"
    );
    assert_eq!(
        following.misplaced(&by(&caller(&[], "/b")), &Configured::default()),
        None
    );
    let project = Arc::new(Caller {
        mode: Some(Mode::Project),
        ..Caller::clone(&caller(&[], "/a"))
    });
    assert_eq!(
        following.misplaced(&by(&project).directory("/b"), &Configured::default()),
        None
    );
}

#[test]
fn what_is_named_in_vain_is_told_by_its_name_alone() {
    let with = |named: &[(&str, &str)]| {
        let named = named.iter();
        let named = named.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Arc::new(Caller {
            named: named.collect(),
            ..Caller::clone(&caller(&[], "/a"))
        })
    };
    let first = with(&[("A", "1"), ("B", "2")]);
    let mut following = Following::new(&first, Mode::Project, Configured::default());
    let mut told = |who: &Arc<Caller>| {
        let step = step(&following, &by(who));
        following.followed(step)
    };
    assert_eq!(told(&with(&[("B", "2")])), None);
    let sentence = told(&with(&[("A", "secret"), ("MY_TOKEN", "secret")])).unwrap();
    assert!(
        sentence.contains("A, MY_TOKEN were named for it"),
        "{sentence}"
    );
    assert!(!sentence.contains("secret"), "{sentence}");
    let again = with(&[("A", "secret"), ("MY_TOKEN", "secret")]);
    assert_eq!(told(&again), None, "once");
    // A reset takes it.
    let reset = step(&following, &by(&again).reset());
    assert_eq!(reset.anew.unwrap().reason, LossReason::Reset);
}

#[test]
fn another_configuration_replaces_kernels_that_have_theirs_of_it() {
    let first = caller(&[], "/a");
    let mut following = Following::new(&first, Mode::Project, Configured::default());
    let python = Configured {
        python: Some("/opt/python".into()),
        ..Configured::default()
    };
    let strict = Configured {
        mode: Mode::Strict,
        ..python.clone()
    };
    let wants = |following: &Following, cell: &Cell, configured: &Configured| {
        let anew = following
            .step(cell, Path::new("/place"), None, configured)
            .anew?;
        Some((anew.reason, anew.by_configuration, anew.mode))
    };
    let replaced = |mode| Some((LossReason::Replaced, true, mode));
    assert_eq!(wants(&following, &by(&first), &Configured::default()), None);
    assert_eq!(
        wants(&following, &by(&first), &python),
        replaced(Mode::Project)
    );
    assert_eq!(
        wants(&following, &by(&first), &strict),
        replaced(Mode::Strict)
    );
    // What a caller names itself is not the configuration's.
    let mut naming = Caller::clone(&first);
    naming.mode = Some(Mode::Project);
    naming.python = Some("/usr/bin/python3".into());
    let naming = Arc::new(naming);
    let asked = wants(&following, &by(&naming), &strict);
    assert_eq!(asked, Some((LossReason::Replaced, false, Mode::Project)));
    let of_its_own = Following::new(&naming, Mode::Project, Configured::default());
    assert_eq!(wants(&of_its_own, &by(&first), &strict), None);
    // Once.
    let anew = following
        .step(&by(&first), Path::new("/place"), None, &strict)
        .anew;
    following.taken_over(anew.unwrap());
    assert_eq!(wants(&following, &by(&first), &strict), None);
    assert_eq!(
        wants(&following, &by(&first), &python),
        replaced(Mode::Project)
    );
}
