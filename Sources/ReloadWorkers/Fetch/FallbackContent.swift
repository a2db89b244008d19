import Logging
package import WidgetModel
import WidgetStore

extension WorkerContext {
    /// Requests fallback content from a provider. A failure counts for the endpoint, and for the provider if it
    /// concerns all of it.
    ///
    /// - Parameter absence: pause for a provider without the endpoint.
    /// - Throws: ``ProviderFailure``, `CancellationError`; errors of `read`.
    func askFallback<Value>(
        _ call: ProviderCall, of provider: ProviderKey, app: RegisteredApp, absence: Duration,
        read: ([UInt8]) throws -> Value
    ) async throws -> Value {
        let began = clock.elapsed
        do {
            let value = try read(try await fetcher.fetch(call))
            restingEndpoints.succeeded(call.endpoint, of: provider)
            return value
        } catch let failure as ProviderFailure {
            try Task.checkCancellation()
            restingEndpoints.failed(failure, call.endpoint, of: provider, at: clock.elapsed, absence: absence)
            protection.fallbackFailed(failure, of: provider, app: app.name, startedAt: began, at: clock.elapsed)
            throw failure
        }
    }
}

extension ProviderAnswer {
    /// - Throws: ``ProviderFailure`` for an invalid answer.
    package static func parse(_ body: () throws(JSONError) -> Self) throws(ProviderFailure) -> Self {
        do throws(JSONError) {
            return try body()
        } catch {
            throw ProviderFailure(.invalid, "the answer is not what the contract says: \(error)")
        }
    }
}

extension ProviderFailure {
    /// Failure of one element of an answer; nil without one.
    package init?<Value>(_ outcome: ElementOutcome<Value>) {
        switch outcome {
        case .value: return nil
        case .failed(let code, let message, let retryAfter):
            self.init(.provider, "\(code): \(message)", retryAfter: retryAfter)
        case .missing: self.init(.missing, "the answer leaves it out")
        case .duplicate: self.init(.duplicate, "the answer has it more than once")
        case .invalid(let error): self.init(.invalid, "\(error)")
        }
    }
}
