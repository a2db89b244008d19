import Logging
import PostgresClient
import Tracing
import WidgetModel
import WidgetStore

/// Fetches the timelines of a batch from their provider, within the lease and the provider's protection.
struct FetchRunner: Sendable {
    let context: WorkerContext

    /// Requests a batch if the protection admits it, and parts of the batch if it fails for its content or size.
    ///
    /// - Throws: only `CancellationError`.
    func fetch(_ batch: FetchBatch) async throws -> FetchOutcome {
        // Timelines that waited here for too long were never requested, so another lease begins at once.
        let now = context.clock.elapsed
        var outcome = postponed(batch.items.filter { !fitsLease($0, at: now) }, by: .zero, .lease)
        var batch = outcome.postponed.isEmpty ? batch : batch.keeping(batch.items.filter { fitsLease($0, at: now) })
        guard !batch.items.isEmpty else { return outcome }
        let ticket: RequestTicket
        switch begin(batch) {
        case .go(let granted): ticket = granted
        case .rest(let time):
            // Spread, so that not all of them come back at once.
            let spread = min(time, .seconds(60)) * Double.random(in: 0...0.2)
            outcome.append(postponed(batch.items, by: time + spread, .resting))
            return outcome
        }
        // A probe is not a retry.
        let isPaid = batch.isRetry && !ticket.isProbe
        if isPaid {
            let granted = context.protection.takeRetries(batch.items.count, of: batch.provider, at: now)
            if granted < batch.items.count {
                let wait = context.protection.retryWait(
                    after: batch.items.count - granted, of: batch.provider, at: now)
                outcome.append(
                    postponed(Array(batch.items[granted...]), by: wait * Double.random(in: 0.5...1), .retryBudget))
            }
            guard granted > 0 else {
                context.protection.givenUp(ticket, at: now)
                return outcome
            }
            batch = batch.keeping(Array(batch.items[..<granted]))
        } else if !batch.isRetry {
            context.protection.firstAttempts(batch.items.count, of: batch.provider, at: now)
        }
        do {
            outcome.append(try await ask(batch, ticket, isPaid: isPaid))
        } catch let failure as ProviderFailure {
            outcome.append(try await split(batch, ticket, failure))
        }
        return outcome
    }

    /// Time for requests that leaves enough of the lease for the later steps.
    private func timeLeft(of batch: FetchBatch) -> Duration {
        batch.leaseEnds - context.clock.elapsed - context.output.longestPublish
    }

    /// Whether a timeline's lease leaves the time that its kind allows for a request.
    private func fitsLease(_ item: FetchItem, at now: Duration) -> Bool {
        item.leaseEnds - now - context.output.longestPublish >= item.kind.definition.timeout
    }

    /// Whether a request with this time limit says anything about the provider.
    private func isEnough(_ time: Duration, for batch: FetchBatch) -> Bool { time >= batch.timeout / 2 }

    private func begin(_ batch: FetchBatch) -> ProviderProtection.Admission {
        context.protection.begin(
            batch.provider, app: batch.app.name, held: context.slots.held(by: batch.provider), lane: batch.lane,
            at: context.clock.elapsed)
    }

    private func postponed(
        _ items: [FetchItem], by delay: Duration, _ reason: FetchOutcome.Postponement
    ) -> FetchOutcome {
        var outcome = FetchOutcome()
        outcome.postponed = items.map { ($0, delay, reason) }
        return outcome
    }

    /// Makes one request.
    ///
    /// - Parameter isPaid: whether the retry budget paid for it, which gets back the successes.
    /// - Throws: ``ProviderFailure`` of the whole request; `CancellationError`.
    private func ask(_ part: FetchBatch, _ ticket: RequestTicket, isPaid: Bool) async throws -> FetchOutcome {
        context.statistics.count { counts in
            counts.requests += 1
            counts.requestedTimelines += part.items.count
        }
        context.statistics.count(asked: part)
        let timeout = min(part.timeout, max(.zero, timeLeft(of: part)))
        let call = ProviderCall(
            url: part.provider.url, secrets: part.app.signingSecrets, body: part.requestBody(for: part.items),
            timeout: timeout, maximumResponseBytes: context.configuration.maximumResponseBytes)
        let began = context.clock.elapsed
        do {
            let answer = try await fetch(call, of: part)
            let outcome = try FetchOutcome(answer: answer, to: part, after: context.clock.elapsed - began)
            let now = context.clock.elapsed
            context.meter.asked(for: part.items.count, took: now - began)
            context.protection.answered(ticket, timeout: part.timeout, at: now)
            context.protection.batchSucceeded(part.items.count, of: part.provider, at: now)
            if isPaid { context.protection.payBackRetries(outcome.fetched.count, of: part.provider, at: now) }
            return outcome
        } catch var failure as ProviderFailure {
            let now = context.clock.elapsed
            guard !Task.isCancelled else {
                context.protection.givenUp(ticket, at: now)
                throw CancellationError()
            }
            failure.fetchTime = now - began
            context.meter.asked(for: part.items.count, took: now - began, failure: failure)
            if failure.reason == .timeout, !isEnough(timeout, for: part) {
                // The lease ended.
                context.protection.givenUp(ticket, at: now)
            } else {
                context.protection.failed(ticket, failure, at: now)
            }
            throw failure
        } catch {
            context.protection.givenUp(ticket, at: context.clock.elapsed)
            throw error
        }
    }

    /// Sends the request within the newest trace of its timelines.
    private func fetch(_ call: ProviderCall, of part: FetchBatch) async throws -> [UInt8] {
        guard let trace = part.newestTrace else { return try await context.fetcher.fetch(call) }
        return try await withSpan("freshet.fetch", context: TraceHeaders.context(of: trace), ofKind: .client) { span in
            var call = call
            call.headers = TraceHeaders.headers(of: span.context)
            return try await context.fetcher.fetch(call)
        }
    }

    /// Searches a failed batch for the parts that the provider answers, within the lease, the retry budget and a number
    /// of requests.
    private func split(
        _ part: FetchBatch, _ ticket: RequestTicket, _ failure: ProviderFailure
    ) async throws -> FetchOutcome {
        let verdict = RequestVerdict(failure)
        let cause: Bisection.Cause
        switch verdict {
        case .tooLarge: cause = .size
        case .blamesContent: cause = .content
        case .answered, .overloaded, .unavailable:
            guard part.isSuspicious, failure.mayBreakProvider else { return FetchOutcome(failure, of: part) }
            cause = .content
        }
        guard part.items.count > 1, !ticket.isProbe else {
            // A single timeline that fails again says nothing about the others.
            if verdict == .blamesContent, !part.isRetry {
                context.protection.failedEverywhere(ticket, failure, at: context.clock.elapsed)
            }
            return FetchOutcome(failure, of: part)
        }
        var bisection = Bisection(
            count: part.items.count, failure: failure, cause: cause,
            maximumRequests: context.configuration.protection.maximumBisectRequests)
        var outcome = try await bisect(part, &bisection)
        let now = context.clock.elapsed
        if cause == .size || failure.reason == .tooLarge {
            context.protection.batchWasTooLarge(fitting: bisection.fitting, of: part.provider, at: now)
        }
        if verdict == .blamesContent, bisection.isEverywhere {
            context.protection.failedEverywhere(ticket, failure, at: now)
        }
        for failed in bisection.failures {
            var failure = failed.failure
            failure.isPoison = failed.isPoison
            if failed.isPoison, let first = part.items[failed.range].first {
                context.logger.warning(
                    "a timeline makes its provider fail",
                    metadata: [
                        "app": "\(part.app.name)", "kind": "\(first.kind.definition.name)",
                        "timeline": "\(first.timeline.id)",
                        "message": "\(failure.message)",
                    ])
            }
            outcome.failed += failed.range.map { (part.items[$0], failure) }
        }
        let (requests, poisonous) = (bisection.requests, bisection.failures.count(where: \.isPoison))
        context.statistics.count { counts in
            counts.bisected += requests > 0 ? 1 : 0
            counts.poisonous += poisonous
        }
        return outcome
    }

    /// Makes the bisection's requests and returns the answers.
    private func bisect(_ part: FetchBatch, _ bisection: inout Bisection) async throws -> FetchOutcome {
        var outcome = FetchOutcome()
        while let range = bisection.next() {
            guard isEnough(timeLeft(of: part), for: part), let ticket = beginRetry(part, range.count)
            else {
                bisection.putBack(range)
                bisection.stop()
                break
            }
            do {
                let some = part.keeping(Array(part.items[range]))
                outcome.append(try await ask(some, ticket, isPaid: true))
                bisection.succeeded(range)
            } catch let failure as ProviderFailure {
                let verdict = RequestVerdict(failure)
                let mayBePoison = part.isSuspicious && failure.mayBreakProvider
                bisection.failed(
                    range, failure, isSplit: verdict == .blamesContent || verdict == .tooLarge || mayBePoison)
            }
        }
        return outcome
    }

    /// Pays for retries of a number of timelines; nil without budget, or if the protection refuses the request.
    private func beginRetry(_ part: FetchBatch, _ count: Int) -> RequestTicket? {
        let granted = context.protection.takeRetries(count, of: part.provider, at: context.clock.elapsed)
        if granted == count, case .go(let ticket) = begin(part) { return ticket }
        context.protection.payBackRetries(granted, of: part.provider, at: context.clock.elapsed)
        return nil
    }
}
