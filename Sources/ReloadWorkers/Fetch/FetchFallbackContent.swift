// SPDX-License-Identifier: Apache-2.0

import JSON
import Logging
import PostgresClient
import Waiting
import WidgetModel
import WidgetStore

extension WorkerContext {
    /// Requests fallback content from a provider. A failure counts for the endpoint, and for the provider if it
    /// concerns all of it.
    ///
    /// - Parameter absence: pause for a provider without the endpoint.
    /// - Throws: ``ProviderFailure``, `CancellationError`; errors of `read`.
    func askFallback<Value>(
        _ call: ProviderCall, of provider: ProviderKey, absence: Duration,
        read: ([UInt8]) throws -> Value
    ) async throws -> Value {
        let began = clock.elapsed
        do {
            let value = try read(try await fetcher.fetch(call))
            restingEndpoints.recordSuccess(call.endpoint, of: provider)
            return value
        } catch let failure as ProviderFailure {
            try Task.checkCancellation()
            restingEndpoints.recordFailure(failure, call.endpoint, of: provider, at: clock.elapsed, absence: absence)
            protection.recordFallbackFailure(failure, of: provider, startedAt: began, at: clock.elapsed)
            throw failure
        }
    }
}

/// Fetches one entry for newly placed widgets, quickly, before the timeline.
///
/// The lease on the list makes one worker request it once. A failed snapshot is counted and delays the timeline by at
/// most ``WidgetModel/KindDefinition/snapshotLimit(_:)``.
extension WorkerContext {
    /// Pause for a provider without the endpoint.
    private static let absenceOfSnapshots = Duration.seconds(600)

    /// Timelines without a render at their first attempt, in the interactive lane of new placements.
    static func wantedSnapshots(of batch: TimelineBatch) -> [TimelineJob] {
        batch.jobs.filter { job in
            job.claim.kind.definition.hasSnapshots && job.lane == .interactive && job.timeline.renderedAt == nil
                && job.timeline.attempts == 0
        }
    }

    func takeSnapshots(of batch: TimelineBatch) async {
        let wanted = Self.wantedSnapshots(of: batch)
        guard !wanted.isEmpty else { return }
        let limit = wanted.map { $0.claim.kind.definition.snapshotLimit(configuration.snapshotLimit) }.max() ?? .zero
        // The lease must still hold the timelines' own request.
        let left = batch.leaseEnds - clock.elapsed - output.longestPublish - batch.jobs.timeout
        guard left >= limit,
            !restingEndpoints.isResting(.snapshot, of: batch.provider, at: clock.elapsed),
            protection.isAvailable(batch.provider, at: clock.elapsed)
        else { return }
        let call = ProviderCall(
            url: batch.provider.url, endpoint: .snapshot, secrets: batch.app.signingSecrets,
            body: wanted[...].requestBody, timeout: limit,
            maximumResponseBytes: configuration.maximumResponseBytes)
        do {
            let writes = try await askFallback(
                call, of: batch.provider, absence: Self.absenceOfSnapshots
            ) { try snapshots(in: $0, of: wanted, batch) }
            guard !writes.isEmpty else { return }
            _ = try await pool.query(Statements.saveSnapshots(writes))
        } catch {
            guard !Task.isCancelled else { return }
            log(error as? ProviderFailure ?? ProviderFailure(.storage, "\(error)"), wanted.count, batch)
        }
    }

    /// Snapshots of an answer. Failed ones are logged.
    private func snapshots(
        in answer: [UInt8], of wanted: [TimelineJob], _ batch: TimelineBatch
    ) throws(ProviderFailure) -> [SnapshotWrite] {
        let response: FallbackResponse
        do throws(JSONError) {
            response = try FallbackResponse.snapshots(answer, requested: wanted.map(\.timeline.id))
        } catch {
            throw ProviderFailure(error)
        }
        var writes: [SnapshotWrite] = []
        for (job, outcome) in zip(wanted, response.outcomes) {
            switch outcome {
            case .success(let entry):
                writes.append(
                    (
                        row: job.timeline.row, token: job.claim.token, entry: String(decoding: entry, as: UTF8.self)
                    ))
            case .failure(let failure): log(failure, 1, batch)
            }
        }
        return writes
    }

    private func log(_ failure: ProviderFailure, _ timelines: Int, _ batch: TimelineBatch) {
        logger.debug(
            "no snapshots",
            metadata: [
                "app": "\(batch.app.name)", "count": "\(timelines)", "reason": "\(failure.reason)",
                "message": "\(failure.message)",
            ])
    }
}

/// Fetches due placeholders at intervals, one request at a time. Any number of processes may do it concurrently.
struct PlaceholderLoop: Sendable {
    let context: WorkerContext
    let directory: DirectoryCache
    /// Frees the slot of a request that has ended, for those that wait for it.
    let freeSlot: @Sendable (ProviderKey, ReloadLane) -> Void

    /// Pause for a provider without the endpoint.
    static let absence = Duration.seconds(86_400)
    /// Part of a lease reserved for the database, besides the request.
    private static let databaseTime = Duration.seconds(10)
    /// Most requests of one pass, so that expiry and shutdown do not wait long.
    private static let maximumRequests = 200
    /// Most placeholders deleted by one statement.
    private static let expiryChunk = 1_000

    /// Fetches until the task is cancelled.
    ///
    /// - Throws: `CancellationError`; an error that is not transient.
    func run() async throws {
        try await context.repeatedly("fetch placeholders") {
            try await pass()
            try await context.clock.sleep(for: context.configuration.placeholderInterval.jittered)
        }
    }

    func pass() async throws {
        let known = try await directory.directory(maximumAge: context.configuration.directoryAge)
        // Kinds that are done in this pass, or whose providers rest.
        var excluded = known.kinds.values.filter { isResting($0) }.map(\.id)
        // Apps take turns, so that the slow provider of one with many placeholders does not hold up the others.
        var served: Set<Int32> = []
        var requests = 0
        while requests < Self.maximumRequests {
            try Task.checkCancellation()
            let next = Statements.nextPlaceholderKind(excluding: excluded, served: Array(served))
            guard let kindID = try await context.pool.query(next).first else { break }
            guard let kind = known.kinds[kindID], let app = known.apps[kind.app], app.id == kind.appID else {
                // Newer than the directory: left to the next pass.
                excluded.append(kindID)
                continue
            }
            let provider = ProviderKey(kind)
            guard
                context.slots.begin(provider, .bulk, limit: context.protection.limit(of: provider))
            else {
                // Busy with timelines: left to the next pass.
                excluded.append(kindID)
                continue
            }
            defer { freeSlot(provider, .bulk) }
            if !served.insert(app.id).inserted { served = [app.id] }
            let claimed = try await context.pool.query(
                .claimPlaceholders(
                    kindID: kindID, limit: max(1, kind.definition.maxBatch),
                    lease: kind.definition.timeout + Self.databaseTime))
            let wanted = try await keepFitting(claimed, kind)
            if !wanted.isEmpty {
                requests += 1
                try await fetch(wanted, kind, app)
            }
            if isResting(kind) {
                excluded += known.kinds.values.filter { isResting($0) }.map(\.id)
            } else if claimed.isEmpty {
                // Another process has them.
                excluded.append(kindID)
            }
        }
        _ = try await context.pool.execute(.expirePlaceholders(limit: Self.expiryChunk))
    }

    private func isResting(_ kind: RegisteredKind) -> Bool {
        let provider = ProviderKey(kind)
        let now = context.clock.elapsed
        return context.restingEndpoints.isResting(.placeholder, of: provider, at: now)
            || !context.protection.isAvailable(provider, at: now)
    }

    /// Deletes placeholders that the kind's definition does not allow any more, and returns the rest.
    private func keepFitting(
        _ claimed: [ClaimedPlaceholder], _ kind: RegisteredKind
    ) async throws -> [ClaimedPlaceholder] {
        let variesByTimeZone = kind.definition.variesBy.contains(.timeZone)
        let fits = { (placeholder: ClaimedPlaceholder) in
            kind.definition.families.contains(placeholder.key.family)
                && (placeholder.key.timeZone != nil) == variesByTimeZone
        }
        let misfits = claimed.filter { !fits($0) }
        if !misfits.isEmpty { _ = try await context.pool.execute(.dropPlaceholders(misfits.map(\.key))) }
        return claimed.filter(fits)
    }

    // MARK: Fetching

    private func fetch(_ wanted: [ClaimedPlaceholder], _ kind: RegisteredKind, _ app: RegisteredApp) async throws {
        let provider = ProviderKey(kind)
        let identities = wanted.map { $0.key.identity(of: kind) }
        let call = ProviderCall(
            url: kind.definition.providerURL, endpoint: .placeholder, secrets: app.signingSecrets,
            body: ProviderEndpoint.encode(placeholders: identities, kind: kind.definition.name),
            timeout: kind.definition.timeout, maximumResponseBytes: context.configuration.maximumResponseBytes)
        let results: [PlaceholderResult]
        do {
            results = try await context.askFallback(call, of: provider, absence: Self.absence) {
                try read($0, wanted, identities, kind)
            }
        } catch let failure as ProviderFailure {
            log(failure, wanted.count, kind)
            results = wanted.map { (placeholder: $0, content: nil, delay: delay(after: failure, of: $0)) }
        }
        _ = try await context.pool.execute(.finishPlaceholders(results))
    }

    private func read(
        _ answer: [UInt8], _ wanted: [ClaimedPlaceholder], _ identities: [PlaceholderIdentity], _ kind: RegisteredKind
    ) throws(ProviderFailure) -> [PlaceholderResult] {
        let response: FallbackResponse
        do throws(JSONError) {
            response = try FallbackResponse.placeholders(answer, requested: identities.map(\.id))
        } catch {
            throw ProviderFailure(error)
        }
        return zip(wanted, response.outcomes).map { placeholder, outcome in
            switch outcome {
            case .success(let content): return (placeholder, String(decoding: content, as: UTF8.self), .zero)
            case .failure(let failure):
                log(failure, 1, kind)
                return (placeholder, nil, delay(after: failure, of: placeholder))
            }
        }
    }

    private func delay(after failure: ProviderFailure, of placeholder: ClaimedPlaceholder) -> Duration {
        guard !failure.saysAbsent else { return Self.absence }
        var generator = SystemRandomNumberGenerator()
        let backoff = context.configuration.placeholderBackoff
        return backoff.base + backoff.delay(attempt: Int(placeholder.attempts) + 1, using: &generator)
    }

    private func log(_ failure: ProviderFailure, _ placeholders: Int, _ kind: RegisteredKind) {
        context.logger.debug(
            "no placeholders",
            metadata: [
                "app": "\(kind.app)", "kind": "\(kind.definition.name)", "count": "\(placeholders)",
                "reason": "\(failure.reason)", "message": "\(failure.message)",
            ])
    }
}

extension PlaceholderKey {
    func identity(of kind: RegisteredKind) -> PlaceholderIdentity {
        PlaceholderIdentity(kind: kind.definition.name, family: family, locale: locale, timeZone: timeZone)
    }
}
