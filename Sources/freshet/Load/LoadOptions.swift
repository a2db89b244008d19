import ArgumentParser
import Logging

/// What all load scenarios can be told.
struct LoadOptions: ParsableArguments {
    @Option(help: "What the stream follows from.")
    var seed: UInt64 = 1

    @Flag(help: "Print the result as JSON (schemas/load-report.json).")
    var json = false

    @Option(
        help: ArgumentHelp(
            "Also write a page with the figures and charts, which needs nothing else.", valueName: "file.html"))
    var report: String?

    @OptionGroup var settings: SettingsOptions

    static func check(_ option: String, _ value: Int, in range: ClosedRange<Int>) throws {
        guard range.contains(value) else {
            throw ValidationError("\(option) \(value): expected \(range.lowerBound) to \(range.upperBound)")
        }
    }

    static func check(_ option: String, _ value: Double, in range: ClosedRange<Double>) throws {
        guard range.contains(value) else {
            throw ValidationError(
                "\(option) \(Figure.digits(value)): expected \(Figure.digits(range.lowerBound)) to "
                    + Figure.digits(range.upperBound))
        }
    }

    /// Prints a report, and writes its page if one is wanted.
    ///
    /// - Throws: ``CommandFailure`` when the page cannot be written; the report is printed before.
    func emit(_ report: any LoadReport) throws {
        if json { Terminal.print(report.json) } else { report.lines.forEach(Terminal.print) }
        guard let file = self.report else { return }
        try LoadPage(
            report: report.json, charts: report.charts, command: ShownCommand.text(CommandLine.arguments),
            time: SampleProvider.systemTime()
        ).write(to: file)
    }
}
