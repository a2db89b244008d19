// SPDX-License-Identifier: Apache-2.0

import JSON
import Logging
import Metrics
import PostgresClient
import Tracing
import WidgetModel
import WidgetStore

/// Fetches the timelines of a batch from their provider, within the lease and the provider's protection.
extension WorkerContext {
    /// Requests a batch if the protection admits it, and parts of the batch if it fails for its content or size. Each
    /// job gets an answer or a failure.
    ///
    /// - Parameter postponed: receives the timelines that are not requested, which leave the batch. Their lists go
    ///   back.
    /// - Throws: only `CancellationError`.
    func fetch(_ batch: inout TimelineBatch, postponed: inout [TimelineJob]) async throws {
        // Timelines that waited here for too long were never requested, so another lease begins at once.
        let now = clock.elapsed
        let late = batch.jobs.extract { !fitsLease($0, at: now) }
        if !late.isEmpty {
            logger.notice(
                "timelines waited too long for a request to their provider and are given back",
                metadata: ["app": "\(batch.app.name)", "provider": "\(batch.provider.url)", "count": "\(late.count)"])
        }
        postponed += postpone(late, by: .zero)
        guard !batch.jobs.isEmpty else { return }
        let ticket: RequestTicket
        switch protection.begin(
            batch.provider, held: slots.held(by: batch.provider), lane: batch.lane, at: now)
        {
        case .go(let granted): ticket = granted
        case .rest(let time):
            // Spread, so that not all of them come back at once.
            let spread = min(time, .seconds(60)) * Double.random(in: 0...0.2)
            postponed += postpone(batch.jobs, by: time + spread)
            return batch.jobs.removeAll()
        }
        let count = batch.jobs.count
        // A probe is not a retry.
        let isPaid = batch.isRetry && !ticket.isProbe
        if isPaid {
            let granted = protection.takeRetries(count, of: batch.provider, at: now)
            if granted < count {
                let wait = protection.retryWait(after: count - granted, of: batch.provider, at: now)
                postponed += postpone(Array(batch.jobs[granted...]), by: wait * Double.random(in: 0.5...1))
                batch.jobs.removeSubrange(granted...)
            }
            guard granted > 0 else { return protection.giveUp(ticket, at: now) }
        } else if !batch.isRetry {
            protection.recordFirstAttempts(count, of: batch.provider, at: now)
        }
        do {
            try await ask(batch.jobs.indices, of: &batch, ticket, isPaid: isPaid)
        } catch let failure as ProviderFailure {
            try await isolate(failure, in: &batch, ticket)
        }
    }

    /// Gives timelines back that are not requested.
    private func postpone(_ jobs: [TimelineJob], by delay: Duration) -> [TimelineJob] {
        for (kind, count) in jobs.kinds { kinds.count(.released, count, of: kind) }
        return jobs.map { job in
            var job = job
            job.returnDelay = delay
            return job
        }
    }

    // MARK: Lease

    /// Whether a timeline's lease leaves the time that its kind allows for a request.
    private func fitsLease(_ job: TimelineJob, at now: Duration) -> Bool {
        job.claim.leaseEnds - now - output.longestPublish >= job.claim.kind.definition.timeout
    }

    /// Time for requests that leaves enough of the lease for the later steps.
    private func timeLeft(of jobs: some Collection<TimelineJob>) -> Duration {
        jobs.leaseEnds - clock.elapsed - output.longestPublish
    }

    // MARK: Requests

    /// Makes one request for some of the timelines.
    ///
    /// - Parameter isPaid: whether the retry budget paid for it, which gets back the successes.
    /// - Throws: ``ProviderFailure`` of the whole request; `CancellationError`.
    private func ask(
        _ range: Range<Int>, of batch: inout TimelineBatch, _ ticket: RequestTicket, isPaid: Bool
    ) async throws {
        let jobs = batch.jobs[range]
        let provider = batch.provider
        for (kind, count) in jobs.kinds {
            kinds.count(kind: kind.id) { counters in
                counters.requests += 1
                counters.asked += count
            }
        }
        let longest = jobs.timeout
        let timeout = min(longest, max(.zero, timeLeft(of: jobs)))
        var call = ProviderCall(
            url: provider.url, secrets: batch.app.signingSecrets, body: jobs.requestBody, timeout: timeout,
            maximumResponseBytes: configuration.maximumResponseBytes)
        let began = clock.elapsed
        do {
            let bytes: [UInt8]
            if let trace = batch.newestTrace(of: range) {
                bytes = try await withSpan("freshet.fetch", context: TraceHeaders.context(of: trace), ofKind: .client) {
                    call.headers = TraceHeaders.headers(of: $0.context)
                    return try await fetcher.fetch(call)
                }
            } else {
                bytes = try await fetcher.fetch(call)
            }
            let answered = try read(bytes, into: &batch, range, after: clock.elapsed - began)
            let now = clock.elapsed
            count("answered", range.count, took: now - began)
            protection.recordAnswer(ticket, count: range.count, timeout: longest, at: now)
            if isPaid { protection.payBackRetries(answered, of: provider, at: now) }
        } catch var failure as ProviderFailure {
            let now = clock.elapsed
            guard !Task.isCancelled else {
                protection.giveUp(ticket, at: now)
                throw CancellationError()
            }
            failure.fetchTime = now - began
            count(failure.reason.rawValue, range.count, took: now - began)
            if failure.reason == .timeout, timeout < longest / 2 {
                // The lease ended, which says nothing about the provider.
                protection.giveUp(ticket, at: now)
            } else {
                protection.recordFailure(ticket, failure, at: now)
            }
            throw failure
        } catch {
            protection.giveUp(ticket, at: clock.elapsed)
            throw error
        }
    }

    /// Counts a request that has ended.
    private func count(_ outcome: String, _ timelines: Int, took time: Duration) {
        metrics.providerRequests(outcome).increment()
        metrics.providerBatch.record(timelines)
        metrics.providerSeconds.record(time)
    }

    /// Reads an answer, and returns the number of answered timelines. An error of one timeline fails only that one.
    ///
    /// - Throws: ``ProviderFailure`` for an invalid answer.
    func read(
        _ answer: [UInt8], into batch: inout TimelineBatch, _ range: Range<Int>, after fetchTime: Duration
    ) throws(ProviderFailure) -> Int {
        var requested: [RequestedTimeline] = []
        requested.reserveCapacity(range.count)
        for index in range {
            let (timeline, kind) = (batch.jobs[index].timeline, batch.jobs[index].claim.kind)
            requested.append(
                RequestedTimeline(timeline.id, volatileFields: kind.volatilePointers, family: timeline.family))
        }
        let response: ProviderResponse
        do throws(JSONError) {
            response = try ProviderResponse.parse(answer, requested: requested)
        } catch {
            throw ProviderFailure(error)
        }
        var answered = 0
        var itemFailure: ProviderFailure?
        for (index, outcome) in zip(range, response.outcomes) {
            batch.jobs[index].fetchTime = fetchTime
            switch outcome {
            case .failure(let failure):
                batch.jobs[index].failure = failure
                itemFailure = failure
            case .success(let parsed):
                answered += 1
                batch.jobs[index].answer = parsed
                if !parsed.lints.isEmpty {
                    kinds.count(kind: batch.jobs[index].claim.kind.id) { $0.count(parsed.lints) }
                }
            }
        }
        if let itemFailure { protection.recordItemFailure(itemFailure, of: batch.provider, at: clock.elapsed) }
        if response.foreignCount > 0 {
            logger.warning(
                "a provider answered for timelines that were not asked for",
                metadata: ["app": "\(batch.app.name)", "count": "\(response.foreignCount)"])
        }
        return answered
    }

    // MARK: Isolation of failures

    /// Searches a failed batch for the parts that the provider answers, within the lease, the retry budget and a number
    /// of requests. Without a cause to search for, the failure is that of all timelines.
    private func isolate(
        _ failure: ProviderFailure, in batch: inout TimelineBatch, _ ticket: RequestTicket
    ) async throws {
        let verdict = RequestVerdict(failure)
        let mayBreakProvider = batch.jobs.areSuspicious && failure.mayBreakProvider
        guard verdict == .tooLarge || verdict == .blamesContent || mayBreakProvider else {
            return fail(batch.jobs.indices, of: &batch, failure)
        }
        guard batch.jobs.count > 1, !ticket.isProbe else {
            // A single timeline that fails again says nothing about the others.
            if verdict == .blamesContent, !batch.isRetry {
                protection.recordFailureEverywhere(ticket, failure, at: clock.elapsed)
            }
            return fail(batch.jobs.indices, of: &batch, failure)
        }
        var bisection = Bisection(
            count: batch.jobs.count, failure: failure, cause: verdict == .tooLarge ? .size : .content,
            maximumRequests: configuration.protection.maximumBisectRequests)
        try await bisect(&batch, &bisection)
        let now = clock.elapsed
        if verdict == .tooLarge || failure.reason == .tooLarge {
            protection.recordOversizedBatch(fitting: bisection.fitting, of: batch.provider, at: now)
        }
        if verdict == .blamesContent, bisection.isEverywhere {
            protection.recordFailureEverywhere(ticket, failure, at: now)
        }
        for failed in bisection.failures {
            var failure = failed.failure
            failure.isPoison = failed.isPoison
            fail(failed.range, of: &batch, failure)
            guard failed.isPoison, let job = batch.jobs[failed.range].first else { continue }
            logger.warning(
                "a timeline makes its provider fail",
                metadata: [
                    "app": "\(batch.app.name)", "kind": "\(job.claim.kind.definition.name)",
                    "timeline": "\(job.timeline.id)", "message": "\(failure.message)",
                ])
        }
        metrics.poisonous.increment(by: bisection.failures.count(where: \.isPoison))
    }

    private func fail(_ range: Range<Int>, of batch: inout TimelineBatch, _ failure: ProviderFailure) {
        for index in range {
            batch.jobs[index].failure = failure
            batch.jobs[index].fetchTime = failure.fetchTime
        }
    }

    /// Makes the bisection's requests.
    private func bisect(_ batch: inout TimelineBatch, _ bisection: inout Bisection) async throws {
        while let range = bisection.next() {
            guard timeLeft(of: batch.jobs) >= batch.jobs.timeout / 2, let ticket = beginRetry(batch, range.count) else {
                bisection.putBack(range)
                return bisection.stop()
            }
            do {
                try await ask(range, of: &batch, ticket, isPaid: true)
                bisection.recordSuccess(range)
            } catch let failure as ProviderFailure {
                let verdict = RequestVerdict(failure)
                let mayBePoison = batch.jobs.areSuspicious && failure.mayBreakProvider
                bisection.recordFailure(
                    range, failure, isSplit: verdict == .blamesContent || verdict == .tooLarge || mayBePoison)
            }
        }
    }

    /// Pays for retries of a number of timelines; nil without budget, or if the protection refuses the request.
    private func beginRetry(_ batch: TimelineBatch, _ count: Int) -> RequestTicket? {
        let (provider, now) = (batch.provider, clock.elapsed)
        let granted = protection.takeRetries(count, of: provider, at: now)
        if granted == count,
            case .go(let ticket) = protection.begin(
                provider, held: slots.held(by: provider), lane: batch.lane, at: now)
        {
            return ticket
        }
        protection.payBackRetries(granted, of: provider, at: now)
        return nil
    }
}
