// A shell around the Rust crate memcache: client ascii|binary HOST PORT. See ../../doc.go for the commands and the form of results.
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, Write};

type Outcome = Result<String, memcache::MemcacheError>;
type Gets = HashMap<String, (Vec<u8>, u32, Option<u64>)>;

fn show(v: &str) -> String {
    if v.len() <= 100 { v.to_string() } else { format!("{} bytes", v.len()) }
}

fn run(c: &memcache::Client, tokens: &mut HashMap<String, u64>, w: &[&str]) -> Outcome {
    let expiry = || w.get(3).map_or(0, |e| e.parse::<i64>().unwrap() as u32);
    let value = || match w[2].strip_prefix('*') {
        Some(n) => "x".repeat(n.parse().unwrap()),
        None => w[2].to_string(),
    };
    Ok(match w[0] {
        "get" => c.get::<String>(w[1])?.map_or("None".into(), |v| show(&v)),
        "multi" => format!("{:?}", c.gets::<String>(&w[1..])?.into_iter().map(|(k, v)| (k, show(&v))).collect::<BTreeMap<_, _>>()),
        "set" => format!("{:?}", c.set(w[1], value().as_str(), expiry())?),
        "add" => format!("{:?}", c.add(w[1], value().as_str(), expiry())?),
        "replace" => format!("{:?}", c.replace(w[1], w[2], expiry())?),
        "append" => format!("{:?}", c.append(w[1], w[2])?),
        "delete" => format!("{:?}", c.delete(w[1])?),
        "incr" => format!("{:?}", c.increment(w[1], w[2].parse().unwrap())?),
        "touch" => format!("{:?}", c.touch(w[1], w[2].parse::<i64>().unwrap() as u32)?),
        "gets" => match (c.gets(&[w[1]])? as Gets).remove(w[1]) {
            Some((v, _, cas)) => {
                tokens.insert(w[1].into(), cas.unwrap_or(0));
                String::from_utf8_lossy(&v).into()
            }
            None => "None".into(),
        },
        "cas" => format!("{:?}", c.cas(w[1], w[2], 0, tokens[w[1]])?),
        "flush" => format!("{:?}", c.flush()?),
        "version" => c.version()?.into_iter().map(|(_, v)| v.trim().to_string()).collect(),
        _ => "unsupported".into(),
    })
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let query = if args[1] == "ascii" { "?protocol=ascii" } else { "" };
    let mut client = None; // it connects at once, so a failure is the result of the first command
    let mut tokens = HashMap::new();
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let url = format!("memcache://{}:{}{}", args[2], args[3], query);
        let outcome = match client.take().map_or_else(|| memcache::connect(url.as_str()), Ok) {
            Ok(c) => {
                let outcome = run(&c, &mut tokens, &words);
                client = Some(c);
                outcome
            }
            Err(e) => Err(e),
        };
        let text = outcome.unwrap_or_else(|e| format!("error: {e}"));
        println!("{}", text.replace(['\r', '\n'], " "));
        std::io::stdout().flush().unwrap();
    }
}
