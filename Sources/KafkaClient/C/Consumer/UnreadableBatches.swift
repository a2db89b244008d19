// SPDX-License-Identifier: Apache-2.0

internal import Logging
internal import Waiting

/// Partitions at a batch that cannot be read, and those from which no message comes. Used on the poll thread only.
struct UnreadableBatches {
    /// Partitions that stand still, with the start and the time of the next attempt.
    private var stopped: [TopicPartition: (start: KafkaOffset, retry: ContinuousClock.Instant)] = [:]
    /// Partitions whose logs go on, with the position and the time since which it has been the same.
    private var watched: [TopicPartition: (offset: Int64, since: ContinuousClock.Instant)] = [:]
    private var nextLook = ContinuousClock.now

    /// Returns whether it is time to look for attempts and for silent partitions, and appoints the next look if so.
    mutating func takeDueLook(interval: Duration) -> Bool {
        guard nextLook <= .now else { return false }
        nextLook = .now + interval
        return true
    }

    mutating func stop(_ place: TopicPartition, at start: KafkaOffset, retryAfter pause: Duration) {
        watched[place] = nil
        stopped[place] = (start, .now + pause)
    }

    /// Returns the partitions that are to be tried again, which no longer count as stopped.
    mutating func takeRetries() -> [TopicPartition: KafkaOffset] {
        let due = stopped.filter { $0.value.retry <= .now }
        for place in due.keys { stopped[place] = nil }
        return due.mapValues(\.start)
    }

    /// Returns whether a partition has been at the same position for this time although its log goes on, and counts the
    /// time anew then.
    mutating func detectSilence(_ place: TopicPartition, at offset: Int64, for limit: Duration) -> Bool {
        guard let seen = watched[place], seen.offset == offset else {
            watched[place] = (offset, .now)
            return false
        }
        guard seen.since.duration(to: .now) >= limit else { return false }
        watched[place] = nil
        return true
    }

    mutating func stopWatching(_ place: TopicPartition) { watched[place] = nil }

    /// Counts the time without messages anew, since nothing is fetched.
    mutating func stopWatching() { watched = [:] }

    mutating func forget(_ places: Set<TopicPartition>) {
        for place in places { (watched[place], stopped[place]) = (nil, nil) }
    }
}

extension ConsumerLoop {
    /// Stops a partition whose batch cannot be read, until the next attempt.
    func stopAtUnreadableBatch(_ place: TopicPartition, at offset: Int64, reason: String) {
        guard tracker[place]?.phase == .running else { return }
        pauseStalled(place)
        let start = tracker[place]?.start ?? .at(offset)
        unreadable.stop(place, at: start, retryAfter: configuration.unreadableRetry)
        events.flush()
        logger.debug(
            "a batch cannot be read",
            metadata: ["partition": "\(place)", "offset": "\(offset)", "reason": "\(reason)"])
        events.push(.unreadable(place, offset: offset, reason: reason))
    }

    /// Stops a partition, and librdkafka's fetches of it.
    func pauseStalled(_ place: TopicPartition) {
        tracker.stall(place)
        pausedPlaces.insert(place)
        setPaused(true, [place])
    }

    /// Ends the pause of those of these partitions that were stopped.
    func resumeStalled(_ places: Set<TopicPartition>) {
        let paused = places.intersection(pausedPlaces)
        pausedPlaces.subtract(paused)
        setPaused(false, Array(paused))
    }

    /// Tries stopped partitions again, and looks for partitions from which no message comes.
    func serveUnreadable() {
        guard unreadable.takeDueLook(interval: min(.seconds(1), configuration.unreadableRetry)) else { return }
        for (place, start) in unreadable.takeRetries() {
            resumeStalled([place])
            reassign([place: start])
            tracker.move(place, to: start)
        }
        guard !isHolding else { return unreadable.stopWatching() }
        for state in tracker.running {
            // Without a position, reading began at the oldest message.
            guard let bounds = bounds(of: state.place), case let next = state.next ?? max(0, bounds.lowerBound),
                bounds.upperBound > next
            else {
                unreadable.stopWatching(state.place)
                continue
            }
            guard unreadable.detectSilence(state.place, at: next, for: configuration.silenceLimit) else { continue }
            // Up to here may be an open transaction; and without an answer nothing is known.
            guard let readable = queryBounds(of: state.place), readable.contains(next) else { return }
            stopAtUnreadableBatch(
                state.place, at: next,
                reason:
                    "no message has come from there for \(configuration.silenceLimit / .seconds(1)) s, though the log goes on"
            )
            return
        }
    }
}

/// Schedule of the checks whether the queue of fetched messages is empty although the log has more. Used on the poll
/// thread only.
struct Starvation {
    /// Longest wait for a broker's answer.
    static let limitMilliseconds: Int32 = 50

    /// Time for which a queue is empty before the first check.
    private static let firstWait: Int32 = 5
    /// Pauses between checks. Markers of transactions look like unread messages until the end of the log is read.
    private static let pauses = Backoff(base: .milliseconds(5), cap: .seconds(5))

    private var isIdle = false
    /// Checks since the latest message that found the log to have more.
    private var checks = 0
    private var next: ContinuousClock.Instant?

    /// Time to wait for a message.
    func wait(atMost limit: Int32) -> Int32 {
        if isIdle { return limit }
        guard let next else { return min(limit, Self.firstWait) }
        let left = ContinuousClock.now.duration(to: next) / .milliseconds(1)
        return min(limit, max(1, Int32(min(left, 10_000).rounded(.up))))
    }

    /// Whether a check is due while no message comes.
    var mayAsk: Bool { next.map { $0 <= .now } ?? true }

    /// Notes a check, and appoints the next one.
    ///
    /// - Parameter isBehind: whether the log has more.
    mutating func recordCheck(isBehind: Bool) {
        isIdle = !isBehind
        guard isBehind else {
            next = nil
            return
        }
        checks += 1
        next = .now + Self.pauses.bound(attempt: checks)
    }

    /// Starts anew, since a message has come.
    mutating func reset() {
        guard isIdle || next != nil else { return }
        self = Starvation()
    }
}
