import ArgumentParser
import FreshetService
import PostgresClient
import WidgetModel
import WidgetStore

extension DeadLettersCommand {
    struct Edit: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Changes the headers or the payload of a waiting dead letter, so that a replay can apply it.",
            discussion: """
                `freshet dead-letters show ID --raw` shows the letter. The message in Kafka stays as it is.

                Examples:
                  freshet dead-letters edit 4711 --header ce_time=2026-06-22T10:00:00Z
                  freshet dead-letters edit 4711 --without-header ce_time
                  freshet dead-letters edit 4711 --payload event.json
                """)

        @Argument(help: "Id of the dead letter.")
        var id: Int64

        @Option(
            name: .customLong("header"), parsing: .singleValue,
            help: ArgumentHelp("A header; replaces those of this name.", valueName: "name=value"))
        var headers: [String] = []

        @Option(
            name: .customLong("without-header"), parsing: .singleValue,
            help: ArgumentHelp("A header to remove.", valueName: "name"))
        var removedHeaders: [String] = []

        @Option(help: ArgumentHelp("File with the new payload; - is standard input.", valueName: "file"))
        var payload: String?

        @OptionGroup var output: OutputOptions

        private static let maximumBytes = 1_048_576

        func validate() throws {
            guard !headers.isEmpty || !removedHeaders.isEmpty || payload != nil else {
                throw ValidationError("expected --header, --without-header or --payload")
            }
            for header in headers where header.firstIndex(of: "=") ?? header.startIndex == header.startIndex {
                throw ValidationError("--header \(Text.quoted(header)): expected name=value")
            }
        }

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let payload = try payload.map {
                try BoundedFile.bytes(path: $0 == "-" ? "/dev/stdin" : $0, maximumBytes: Self.maximumBytes)
            }
            let missing = CommandFailure(.failure, "no dead letter \(id) waits")
            guard let (summary, letter) = try await store.query(.readDeadLetter(id: id)).first,
                summary.state == .waiting
            else { throw missing }
            let changed = headers.map { header in
                let name = header.prefix { $0 != "=" }
                return (name: String(name), value: [UInt8]?.some(Array(header.dropFirst(name.count + 1).utf8)))
            }
            let removed = Set(changed.map { $0.name.lowercased() } + removedHeaders.map { $0.lowercased() })
            let kept = letter.headers.filter { !removed.contains($0.name.lowercased()) }
            guard
                try await store.query(
                    .editDeadLetter(id: id, headers: kept + changed, payload: payload ?? letter.payload)
                ).first == id
            else { throw missing }
            output.print(["edited": .count(id)], or: "edited dead letter \(id); replay it with --id \(id)")
        }
    }
}
