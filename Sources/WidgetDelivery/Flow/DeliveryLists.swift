import WidgetModel
import WidgetStore

/// The lists of one claim, with the devices that are still to be told.
struct DeliveryLists: Sendable {
    let holds: [ListHold]
    let devices: [DueDevice]

    init(_ rows: [LeasedDelivery]) {
        var seen: Set<ListHold> = []
        holds = rows.map(\.list).filter { seen.insert($0).inserted }
        devices = rows.compactMap(\.device)
    }

    /// Groups of devices that are told in the same way.
    var groups: (fetched: [DueDevice], pushes: [DueDevice], webhooks: [[DueDevice]]) {
        let fetched = devices.filter(\.hasFetched)
        let pushes = devices.filter { device in
            if case .apns = device.channel { !device.hasFetched } else { false }
        }
        let rest = devices.filter { device in
            if case .webhook = device.channel { !device.hasFetched } else { false }
        }
        return (fetched, pushes, Dictionary(grouping: rest, by: \.appID).sorted { $0.key < $1.key }.map(\.value))
    }
}

extension DueDevice {
    /// Everything that fails together: a topic of an app, or its webhook.
    var route: String {
        switch channel {
        case .apns(_, let environment, let topic): "\(app)/\(environment.rawValue)/\(topic)"
        case .webhook: app
        }
    }

    /// Whether a person waits for the change: it was not gathered with others.
    func isUrgent(window: Duration) -> Bool { changedAt.map { dueAt - $0 < window / 2 } ?? false }
}
