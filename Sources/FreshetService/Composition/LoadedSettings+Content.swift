import KafkaClient
import WidgetAPI
import WidgetModel

extension LoadedSettings {
    /// Errors in the files and texts that the settings name, which only their users read. Connects to nothing.
    package func contentProblems() async -> [SettingProblem] {
        var problems: [SettingProblem] = []
        func report(_ key: String, _ reason: String) {
            let message = reason.replacing("\(key): ", with: "")
            problems.append(SettingProblem(key: key, source: places[key], reason: message))
        }
        do throws(KafkaError) {
            // The port of no broker: only the properties are checked.
            let producer = try KafkaProducer(
                configuration: KafkaConfiguration(
                    bootstrapServers: "127.0.0.1:1", properties: settings.kafka.properties),
                deliveryTimeout: settings.kafka.deliveryTimeout, logger: LogSettings.ofCommands)
            await producer.shutdown()
        } catch {
            report("kafka.properties", error.message)
        }
        do throws(CommandFailure) {
            _ = try settings.connectionLimits()
        } catch {
            report("providers.trustRoots", error.message)
        }
        if let path = settings.api.keys {
            do {
                _ = try await TokenKeys(jwks: try await BoundedFile.keys(path: path))
            } catch {
                report("api.keys", "\(path): \(error)")
            }
        }
        return problems
    }
}
