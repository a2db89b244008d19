import Foundation
import FreshetService
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
