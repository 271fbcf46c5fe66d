package services

import "net/netip"

// CheckNetworks returns why the texts are not what ParseNetworks reads, or "".
func CheckNetworks(texts []string) (reason string) {
	if _, wrong := ParseNetworks(texts); wrong != "" {
		return Quote(wrong) + " is not an address or a network like 10.0.0.1 or 10.0.0.0/8"
	}
	return ""
}

// ParseNetworks reads networks (10.0.0.0/8) and addresses, each as a network of one address. wrong is the first text that is neither.
func ParseNetworks(texts []string) (networks []netip.Prefix, wrong string) {
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			address, err := netip.ParseAddr(text)
			if err != nil {
				return nil, text
			}
			network = netip.PrefixFrom(address, address.BitLen())
		}
		networks = append(networks, network.Masked())
	}
	return networks, ""
}
