// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import Synchronization
import WidgetModel
import WidgetStore

/// Result of notifying one device by a push, or some by a webhook.
enum Notified: Sendable {
    case ended([DeliveryResult])
    /// The route rests: nothing was sent, and the devices stay on their list.
    case resting(until: Timestamp)
}

/// Notifies the devices of a leased list.
///
/// Results are recorded in groups, and at an interval, so that a device that does not answer leaves no other one
/// unrecorded. After an error, such as of the database, nothing more is sent, and what was sent is recorded.
struct ListNotifier: Sendable {
    /// Attempts that are recorded in one statement.
    private static let recordedAtOnce = 250
    /// Longest wait of a result for others to be recorded with.
    private static let recordInterval = Duration.milliseconds(500)

    /// Failed attempts of a device from which on a webhook's request has no other one.
    private static let attemptsTogether = 3

    /// Result of a push or a request; nil: it is time to record.
    private typealias Step = Result<Notified, any Error>?

    let notifier: DeviceNotifier
    /// Most devices or requests of webhooks at once.
    let concurrency: Int
    /// Whether the lease of the list lasts long enough for a usual push that begins now.
    ///
    /// A push can take longer if the provider token is renewed, if the answer stops in its body, or if the queries
    /// before a webhook's request are slow. Another process may then notify the device a second time.
    let isHeld: @Sendable () -> Bool
    let record: @Sendable ([DeliveryResult]) async throws -> Void

    /// - Parameter now: the database's time.
    /// - Throws: the first error, when the results of all that was sent are recorded.
    /// - Returns: time until which devices of a resting route stay on the list; nil: none do.
    func notify(_ devices: [DueDevice], now: @escaping @Sendable () -> Timestamp) async throws -> Timestamp? {
        let groups = DeliveryGroups(devices)
        for app in Set(devices.lazy.map(\.app)) {
            let effects = APNsAnswer.Effect.allCases.map(\.rawValue) + ["unanswered", "unusable"]
            notifier.metrics.deliveryPushes.begin([app], effects)
            if !groups.webhooks.isEmpty {
                notifier.metrics.deliveryWebhookDevices.begin([app], ["accepted", "failed", "stuck"])
            }
        }
        notifier.metrics.deliverySpared.increment(by: groups.fetched.count)
        var ended = groups.fetched.map { notifier.end(DeliveryOutcome(verdict: .fetchedAlready), $0, at: now()) }
        var rest: Timestamp?
        var failure: (any Error)?
        try await withThrowingTaskGroup(of: Step.self) { group in
            var works = works(groups, now).makeIterator()
            var running = 0
            func begin(_ group: inout ThrowingTaskGroup<Step, any Error>) {
                guard failure == nil, let work = works.next() else { return }
                running += 1
                group.addTask {
                    do { return .success(try await work()) } catch { return .failure(error) }
                }
            }
            func waitToRecord(_ group: inout ThrowingTaskGroup<Step, any Error>) {
                group.addTask {
                    try? await Task.sleep(for: Self.recordInterval)
                    return nil
                }
            }
            for _ in 0..<concurrency { begin(&group) }
            waitToRecord(&group)
            while running > 0, let step = try await group.next() {
                var isTime = ended.count >= Self.recordedAtOnce
                if let result = step {
                    running -= 1
                    switch result {
                    case .success(.ended(let more)): ended += more
                    case .success(.resting(let until)): rest = min(rest ?? until, until)
                    case .failure(let error): failure = failure ?? error
                    }
                    begin(&group)
                } else {
                    isTime = true
                    waitToRecord(&group)
                }
                guard isTime, !ended.isEmpty else { continue }
                try await record(ended)
                ended = []
            }
            group.cancelAll()
        }
        if !ended.isEmpty { try await record(ended) }
        if let failure { throw failure }
        return rest
    }

    /// Devices of an app in requests; alone if they have failed often, so that one that is refused does not hold up the
    /// others.
    private func batches(of devices: [DueDevice]) -> [[DueDevice]] {
        let doubtful = devices.filter { $0.attempts >= Self.attemptsTogether }
        let others = devices.filter { $0.attempts < Self.attemptsTogether }
        return others.chunks(of: notifier.configuration.webhookBatch) + doubtful.chunks(of: 1)
    }

    private func works(
        _ groups: DeliveryGroups, _ now: @escaping @Sendable () -> Timestamp
    ) -> [@concurrent @Sendable () async throws -> Notified] {
        let (notifier, isHeld) = (notifier, isHeld)
        var works: [@concurrent @Sendable () async throws -> Notified] = []
        for device in groups.pushes {
            works.append {
                guard isHeld() else { return .resting(until: now()) }
                return try await notifier.push(to: device, now: now)
            }
        }
        for batch in groups.webhooks.flatMap({ batches(of: $0) }) {
            works.append {
                guard isHeld() else { return .resting(until: now()) }
                return try await notifier.callWebhook(for: batch, now: now)
            }
        }
        return works
    }
}

extension Array {
    fileprivate func chunks(of size: Int) -> [[Element]] {
        stride(from: 0, to: count, by: size).map { Array(self[$0..<Swift.min($0 + size, count)]) }
    }
}

/// The devices of a leased list, by the way in which they are notified.
struct DeliveryGroups: Sendable {
    /// Devices that have fetched the changes already.
    let fetched: [DueDevice]
    let pushes: [DueDevice]
    /// Devices with a webhook, by app, in the order of their ids, so that a retry has the same batches.
    let webhooks: [[DueDevice]]

    init(_ devices: [DueDevice]) {
        fetched = devices.filter(\.hasFetched)
        let stale = devices.filter { !$0.hasFetched }
        pushes = stale.filter { $0.pushTopic != nil }
        let rest = stale.filter { $0.pushTopic == nil }
        webhooks = Dictionary(grouping: rest, by: \.appID).sorted { $0.key < $1.key }.map {
            $0.value.sorted { $0.id < $1.id }
        }
    }
}

extension DueDevice {
    /// Everything that fails together: a topic of an app, or its webhook.
    var route: String {
        pushTopic.map { "\(app)/\($0.environment.rawValue)/\($0.topic)" } ?? app
    }
}

/// Shares of the apps in the lists that a process works on at once. An app gets half of the lists that the others leave
/// at most, so that there is always room for an app that comes new, however slow the others' backends are.
final class AppShares: Sendable {
    private let running = Mutex<[Int32: Int]>([:])
    private let limit: Int

    /// - Parameter limit: most lists at once.
    init(limit: Int) {
        self.limit = limit
    }

    var hasRoom: Bool { running.withLock { $0.values.reduce(0, +) < limit } }

    /// Apps that have their share.
    var full: [Int32] {
        running.withLock { running in
            let all = running.values.reduce(0, +)
            return running.filter { _, own in own >= max(1, (limit - (all - own)) / 2) }.map(\.key)
        }
    }

    func begin(_ app: Int32) {
        running.withLock { $0[app, default: 0] += 1 }
    }

    func end(_ app: Int32) {
        running.withLock { running in
            let left = (running[app] ?? 1) - 1
            running[app] = left > 0 ? left : nil
        }
    }
}
