/// Parts of a stream that begins now: a warm-up, whose events are applied but not measured, then the measurement.
struct MeasuredWindow: Sendable {
    let start = ContinuousClock.now + .milliseconds(20)
    let length: Duration

    var warmUp: Duration { min(.seconds(5), length / 5) }
    var total: Duration { warmUp + length }

    /// Series of an event that is to be sent at a time; nil after the end.
    func series(at time: ContinuousClock.Instant, measured series: LoadSeries) -> LoadSeries? {
        time < start + warmUp ? .warmUp : time < start + total ? series : nil
    }
}
