import ArgumentParser
import PostgresClient
import WidgetModel
import WidgetStore

struct LoadGrowthCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "growth",
        abstract: "What each statement takes at growing numbers of timelines, in one run.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url) that nothing else uses. Fills it to each of the sizes in turn \
            and at each of them runs the statements of ingest and workers back to back, with real batch sizes, over \
            timelines scattered over all of them: apply (the mark of a batch), due (what is due), claim, save, complete, \
            global (a reload of everyone), sweep (a chunk), read (one widget's current timeline). After a CHECKPOINT the \
            same timelines are taken twice; "cold" is the first pass. The ratios compare the largest size with the smallest.

            Examples:
              deploy/local/postgres run --memory 8GB -- freshet load growth --report growth.html
              freshet load growth --sizes 10000,100000 --rounds 50 --json
            """)

    @Option(help: "Numbers of timelines, growing, separated by commas.")
    var sizes = "100000,1000000,10000000"

    @Option(help: "Batches of each pass.")
    var rounds = 50

    @Option(help: "Timelines of a batch.")
    var batch = 1_000

    @Option(
        help: """
            Bytes of what is stored anew, when it is not as many as are filled in: with --content-bytes 0 filling takes half \
            as long, and only the timelines of the batches have content.
            """)
    var saveBytes: Int?

    @Option(help: ArgumentHelp("Write a page with the curves as charts.", valueName: "file.html"))
    var report: String?

    @OptionGroup var options: ScaleOptions

    func validate() throws {
        let sizes = try parsedSizes()
        try LoadOptions.check("--batch", batch, in: 1...10_000)
        try LoadOptions.check("--rounds", rounds, in: 1...100_000)
        if let saveBytes { try LoadOptions.check("--save-bytes", saveBytes, in: 0...100_000) }
        guard let smallest = sizes.first, rounds * batch <= smallest else {
            throw ValidationError("--rounds times --batch must be at most the smallest size")
        }
    }

    private func parsedSizes() throws -> [Int] {
        let sizes = sizes.split(separator: ",").map { Int($0.filter { $0 != " " && $0 != "_" }) ?? 0 }
        guard !sizes.isEmpty, sizes[0] > 0, sizes == sizes.sorted(), Set(sizes).count == sizes.count else {
            throw ValidationError("--sizes \(self.sizes): expected growing numbers, such as 100000,1000000")
        }
        for size in sizes { try LoadOptions.check("--sizes", size, in: 1...100_000_000) }
        return sizes
    }

    func run() async throws {
        let sizes = try parsedSizes()
        let world = LoadWorld(users: sizes[sizes.count - 1], widgetsPerUser: 1, kinds: 2)
        let growth = try await options.withPopulation(of: world) {
            [options, rounds, batch, saveBytes] population, store in
            try await LoadGrowth(
                sizes: sizes, rounds: rounds, batch: batch, saveBytes: saveBytes ?? options.contentBytes,
                population: population, store: store
            ).run { indices in try await options.fill(population, indices, store: store) }
        }
        options.emit(growth.json, growth.lines)
        if let report { try GrowthPage(report: growth, time: SampleProvider.systemTime()).write(to: report) }
    }
}
