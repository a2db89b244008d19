import FreshetService
import PostgresClient
import WidgetDelivery
import WidgetModel
import WidgetStore

extension Doctor {
    /// Compares the keys and webhooks of the settings with the registered devices.
    func checkDelivery(_ pool: PostgresPool) async throws -> [Finding] {
        try await requireMigrations("delivery", pool)
        let configuration: DeliveryConfiguration
        do throws(CommandFailure) {
            configuration = try settings.deliveryConfiguration()
        } catch {
            throw Finding.problem("delivery", error.message, "let this user read the key as Apple issued it")
        }
        let routes = try await pool.query(.registeredRoutes())
        guard !routes.isEmpty else { throw Finding.skipped("delivery", "no devices are registered") }
        var found: [Finding] = []
        for route in routes {
            let devices = NumberText.counted(Int(route.devices), "device")
            switch route.channel {
            case "apns" where configuration.apnsKeys[route.app] == nil:
                found.problem(
                    "delivery", "\(devices) of \(route.app) cannot be told: delivery.apnsKeys has no key of the app",
                    "add \(route.app)=TEAM/KEY/path of the .p8 file, where the role delivery runs")
            case "webhook" where configuration.webhooks[route.app] == nil:
                found.problem(
                    "delivery", "\(devices) of \(route.app) cannot be told: delivery.webhooks has no URL of the app",
                    "add \(route.app)=https://…, where the role delivery runs")
            default: break
            }
            if let key = route.tokenKey, settings.delivery.tokenKeys[key] == nil {
                found.problem(
                    "delivery",
                    "\(devices) of \(route.app) have tokens sealed with key \(Text.quoted(key)), which is missing",
                    "put the key back into delivery.tokenKeys: without it the tokens are lost")
            }
        }
        for hook in try await pool.query(.failingWebhooks()) {
            let state = hook.disabledAt == nil ? "fails" : "is disabled"
            found.warning(
                "delivery", "the webhook of \(hook.app) \(state): \(hook.error)",
                "repair the backend, then `freshet devices resume --app \(hook.app)`")
        }
        if found.isEmpty { found.ok("delivery", "every registered device has a key or webhook") }
        return found
    }
}
