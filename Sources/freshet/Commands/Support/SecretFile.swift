import Foundation
import FreshetService
import WidgetModel
import WidgetRepresentation

extension SigningSecret {
    /// Reads a file with a secret.
    init(file path: String) throws(CommandFailure) {
        do throws(SigningSecretReference.Unresolved) {
            self = try SigningSecretReference.file(path)
                .resolve(environment: [:], folder: FileManager.default.currentDirectoryPath)
        } catch {
            throw CommandFailure(.failure, error.message + (error.expectation.map { "; expected \($0)" } ?? ""))
        }
    }
}

extension Manifest {
    /// Signing secrets by app.
    var secrets: [String: [UInt8]] {
        Dictionary(apps.compactMap { app in app.signingSecret.map { (app.definition.name, $0.bytes) } }) { $1 }
    }
}
