import Foundation
import FreshetService
import SampleProvider
import WidgetDelivery
import WidgetModel

/// The devices of some people of the demo: a stand-in for Apple's push service, and what Freshet needs to reach it.
struct DemoDevices: Sendable {
    static let topic = SampleWorld.bank + APNsAddress.topicSuffix

    let standIn: APNsStandIn
    /// Folder of the demo's files.
    let folder: URL

    static func start() async throws -> DemoDevices {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("freshet-demo-\(RandomID.make())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        return DemoDevices(standIn: try await APNsStandIn.start(), folder: folder)
    }

    /// Sets the keys and the address of the stand-in.
    func configure(_ settings: inout Settings) throws {
        let (key, roots) = (folder.appendingPathComponent("key.p8"), folder.appendingPathComponent("roots.pem"))
        try Data(APNsStandIn.makeKey().utf8).write(to: key)
        try Data(standIn.certificatePEM.utf8).write(to: roots)
        let secret = Data((0..<DeviceTokenKeys.keyBytes).map { _ in UInt8.random(in: 0...255) })
        settings.delivery.tokenKeys = ["demo": secret.base64EncodedString()]
        settings.delivery.apnsKeys = [SampleWorld.bank: "TEAM/KEY/\(key.path)"]
        settings.delivery.apnsURL = standIn.url
        settings.delivery.trustRoots = roots.path
        // A demo may run for long, and shows a push for each change that is not gathered with others.
        settings.delivery.service.policy.minimumSpacing = .seconds(5)
        settings.delivery.service.policy.dailyBudget = 100_000
    }

    func removeFiles() {
        try? FileManager.default.removeItem(at: folder)
    }
}
