import WidgetModel
import WidgetStore

/// The devices of a leased list, by the way in which they are notified.
struct DeliveryGroups: Sendable {
    /// Those that have fetched the changes already.
    let fetched: [DueDevice]
    let pushes: [DueDevice]
    /// Those with a webhook, by app, in the order of their ids, so that a retry has the same batches.
    let webhooks: [[DueDevice]]

    init(_ devices: [DueDevice]) {
        fetched = devices.filter(\.hasFetched)
        let stale = devices.filter { !$0.hasFetched }
        pushes = stale.filter { if case .apns = $0.channel { true } else { false } }
        let rest = stale.filter { if case .webhook = $0.channel { true } else { false } }
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
