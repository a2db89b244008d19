// SPDX-License-Identifier: Apache-2.0

/// Texts that run a script or break a page that does not escape them.
package enum HostileTexts {
    package static let all = [
        "<script>document.title='hacked'</script>", "\"><img src=x onerror=document.title='hacked'>",
        "' onmouseover='document.title=1' x='", "</script><script>document.title='hacked'</script>",
        "</title><script>document.title='hacked'</script>", "</style><svg onload=document.title='hacked'>",
        "</pre></details><iframe srcdoc='<script>parent.document.title=1</script>'></iframe>",
        "<svg><animate onbegin=document.title='hacked' attributeName=x dur=1s>", "{{{content}}}{{>layout}}",
        "<!--", "]]><script>document.title='hacked'</script>", "&lt;script&gt;", "javascript:document.title='hacked'",
        "x\"\u{301} autofocus onfocus=document.title='hacked' x=\"",
        "data:text/html,<script>document.title='hacked'</script>", "\u{202e}<b>\u{2028}\u{0}",
    ]
}
