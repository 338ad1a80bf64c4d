use std::collections::HashMap;
trait Shape {
    fn area(&self) -> f64;
}
struct Square<T>(T);
impl Shape for Square<i32> {
    fn area(&self) -> f64 {
        f64::from(self.0 * self.0)
    }
}
impl Shape for Square<f64> {
    fn area(&self) -> f64 {
        self.0 * self.0
    }
}
#[inline(never)]
fn total(all: &[Box<dyn Shape>]) -> f64 {
    all.iter().map(|it| it.area()).sum()
}
#[inline]
fn counted<'a>(seen: &mut HashMap<&'a str, u32>, word: &'a str) -> u32 {
    let n = seen.entry(word).or_default();
    *n += 1;
    *n
}
mod deep {
    pub mod er {
        pub async fn one(x: u32) -> u32 {
            two(x).await + 1
        }
        async fn two(x: u32) -> u32 {
            x * 3
        }
    }
}
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let mut seen = HashMap::new();
    let mut all: Vec<Box<dyn Shape>> = Vec::new();
    for (n, word) in words.iter().enumerate() {
        counted(&mut seen, word);
        all.push(Box::new(Square(n as i32)));
        all.push(Box::new(Square(n as f64)));
    }
    let mut numbers: Vec<u32> = (0..1000).map(|n| n * 7919 % 1013).collect();
    numbers.sort_by_key(|n| n % 10);
    let mut future = Box::pin(deep::er::one(words.len() as u32));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let polled = std::future::Future::poll(future.as_mut(), &mut context);
    println!("{} {} {} {:?}", total(&all), seen.len(), numbers[0], polled);
}
