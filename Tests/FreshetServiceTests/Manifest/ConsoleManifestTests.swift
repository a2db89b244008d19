import TestSupport
import Testing
import WidgetAPI

@testable import FreshetService

@Suite(.timeLimit(.patience))
struct ConsoleManifestTests {
    @Test(
        "A manifest with anchors is refused before it is parsed, since aliases multiply",
        arguments: ["a: &a [x]\n? *a\n: 1", "- &a [[[*a]]]", "apps: {x: &b 1}", "&c\n"])
    func anchors(text: String) {
        guard case .failure(let problem) = Manifest.definitions(of: text) else {
            Issue.record("accepted")
            return
        }
        #expect(problem.text.contains("anchors"), "\(problem.text)")
    }

    @Test("An ampersand in a text is no anchor")
    func ampersand() {
        guard case .failure(let problem) = Manifest.definitions(of: "apps: Bonnie&Clyde") else {
            Issue.record("accepted")
            return
        }
        #expect(!problem.text.contains("anchors"), "\(problem.text)")
    }
}
