import Synchronization
import WidgetModel

/// Providers' addresses as they were read, so that a request does not have to read its provider's again: there are few, and
/// under a trickle of events nearly every timeline is a request of its own.
final class ProviderAddresses: Sendable {
    /// Forgotten all at once beyond so many; an installation has as many as its kinds name.
    private static let most = 1_000

    private let known = Mutex<[String: ProviderURL]>([:])

    /// - Throws: `ModelError` that says what is wrong.
    func address(_ text: String) throws(ModelError) -> ProviderURL {
        if let url = known.withLock({ $0[text] }) { return url }
        let url = try ProviderURL(text)
        known.withLock { known in
            if known.count >= Self.most { known.removeAll() }
            known[text] = url
        }
        return url
    }
}
